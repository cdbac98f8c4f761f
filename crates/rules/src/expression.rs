//! Expressions of `meta` rules and of `if` lines, with Perl's operators and values.
//!
//! A value is a number; false is 0. `a && b` is `b` if `a` is true, else `a`; `a || b` is `a` if it
//! is true, else `b`; comparisons and `!` give 1 or 0. This is what decides the count of a meta.

/// One token of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    Number(f64),
    Name(String),
    Operator(&'static str),
    /// Digits, dots and plus signs that are no number (`1.2.3`, `+2`): kept so that the caller can
    /// report them.
    Odd(String),
}

const OPERATORS: [&str; 18] = [
    "||", "&&", ">=", "<=", "==", "!=", "(", ")", "^", "!", ">", "<", "+", "-", "*", "/", "?", ":",
];

/// Splits into tokens as SpamAssassin's lexer does; characters that begin no token are skipped.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(&b) = bytes.get(at) {
        let run = |is: fn(u8) -> bool| bytes[at..].iter().take_while(|b| is(**b)).count();
        if matches!(b, b'-' | b'+' | b'.' | b'0'..=b'9') {
            let n = run(|b| matches!(b, b'-' | b'+' | b'.' | b'0'..=b'9'));
            out.push(number_token(&text[at..at + n]));
            at += n;
        } else if b == b'_' || b.is_ascii_alphabetic() {
            let n = run(|b| b == b'_' || b == b':' || b.is_ascii_alphanumeric());
            out.push(Token::Name(text[at..at + n].to_owned()));
            at += n;
        } else if let Some(op) = OPERATORS.iter().find(|op| text[at..].starts_with(**op)) {
            out.push(Token::Operator(op));
            at += op.len();
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    out
}

fn number_token(text: &str) -> Token {
    match text {
        "+" => Token::Operator("+"),
        "-" => Token::Operator("-"),
        _ => {
            let plain = text.starts_with(|c: char| c.is_ascii_digit())
                && text.ends_with(|c: char| c.is_ascii_digit())
                && text.chars().all(|c| c.is_ascii_digit() || c == '.');
            match text.parse() {
                Ok(number) if plain => Token::Number(number),
                _ => Token::Odd(text.to_owned()),
            }
        }
    }
}

/// A parsed expression; names are of type `N`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr<N> {
    Number(f64),
    Name(N),
    Not(Box<Expr<N>>),
    Negate(Box<Expr<N>>),
    Binary(Op, Box<Expr<N>>, Box<Expr<N>>),
    Choose(Box<Expr<N>>, Box<Expr<N>>, Box<Expr<N>>),
}

/// A binary operator of `meta` expressions, as Perl has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Or,
    And,
    Xor,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    More,
    MoreEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// Operators by precedence, lowest first.
const LEVELS: [&[(&str, Op)]; 7] = [
    &[("||", Op::Or)],
    &[("&&", Op::And)],
    &[("^", Op::Xor)],
    &[("==", Op::Equal), ("!=", Op::NotEqual)],
    &[(">=", Op::MoreEqual), ("<=", Op::LessEqual), (">", Op::More), ("<", Op::Less)],
    &[("+", Op::Add), ("-", Op::Subtract)],
    &[("*", Op::Multiply), ("/", Op::Divide)],
];

/// Deepest nesting of parentheses and operators.
const DEPTH_MAX: u32 = 200;

/// Parses a name and what follows it into a leaf.
pub(crate) type NameReader<'f, N> =
    dyn FnMut(&str, &mut Cursor<'_>) -> Result<Expr<N>, String> + 'f;

/// Parses tokens; `name` turns a name (and what follows it, for calls) into a leaf.
pub(crate) fn parse<N>(tokens: &[Token], name: &mut NameReader<'_, N>) -> Result<Expr<N>, String> {
    let mut cursor = Cursor { tokens, at: 0 };
    let expr = choice(&mut cursor, name, 0)?;
    match cursor.peek() {
        None => Ok(expr),
        Some(token) => Err(format!("an operator is missing before {}", show(token))),
    }
}

/// Tokens of an expression, and how many of them have been taken.
#[derive(Debug)]
pub(crate) struct Cursor<'t> {
    tokens: &'t [Token],
    at: usize,
}

impl Cursor<'_> {
    /// The next token, which stays where it is; `None` at the end.
    pub(crate) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    /// Takes the operator if it is next.
    pub(crate) fn take(&mut self, operator: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Operator(op)) if *op == operator);
        self.at += usize::from(found);
        found
    }

    /// Takes `(name)` and returns the name.
    pub(crate) fn argument(&mut self) -> Result<String, String> {
        if self.take("(")
            && let Some(Token::Name(name)) = self.peek()
        {
            let name = name.clone();
            self.at += 1;
            if self.take(")") {
                return Ok(name);
            }
        }
        Err("expected (name)".to_owned())
    }
}

fn show(token: &Token) -> String {
    match token {
        Token::Number(n) => n.to_string(),
        Token::Name(name) => format!("{name:?}"),
        Token::Operator(op) => format!("{op:?}"),
        Token::Odd(text) => format!("{text:?}"),
    }
}

type Leaf<'f, N> = &'f mut dyn FnMut(&str, &mut Cursor<'_>) -> Result<Expr<N>, String>;

fn choice<N>(cursor: &mut Cursor<'_>, leaf: Leaf<'_, N>, depth: u32) -> Result<Expr<N>, String> {
    if depth > DEPTH_MAX {
        return Err(format!("nested deeper than {DEPTH_MAX}"));
    }
    let condition = level(0, cursor, leaf, depth)?;
    if !cursor.take("?") {
        return Ok(condition);
    }
    let yes = choice(cursor, leaf, depth + 1)?;
    if !cursor.take(":") {
        return Err("a ? without its :".to_owned());
    }
    let no = choice(cursor, leaf, depth + 1)?;
    Ok(Expr::Choose(Box::new(condition), Box::new(yes), Box::new(no)))
}

fn level<N>(
    strength: usize,
    cursor: &mut Cursor<'_>,
    leaf: Leaf<'_, N>,
    depth: u32,
) -> Result<Expr<N>, String> {
    let Some(operators) = LEVELS.get(strength) else { return unary(cursor, leaf, depth) };
    let mut left = level(strength + 1, cursor, leaf, depth)?;
    while let Some((_, op)) = operators.iter().find(|(text, _)| cursor.take(text)) {
        let right = level(strength + 1, cursor, leaf, depth)?;
        left = Expr::Binary(*op, Box::new(left), Box::new(right));
    }
    Ok(left)
}

fn unary<N>(cursor: &mut Cursor<'_>, leaf: Leaf<'_, N>, depth: u32) -> Result<Expr<N>, String> {
    if depth > DEPTH_MAX {
        return Err(format!("nested deeper than {DEPTH_MAX}"));
    }
    if cursor.take("!") {
        return Ok(Expr::Not(Box::new(unary(cursor, leaf, depth + 1)?)));
    }
    if cursor.take("-") {
        return Ok(Expr::Negate(Box::new(unary(cursor, leaf, depth + 1)?)));
    }
    if cursor.take("+") {
        return unary(cursor, leaf, depth + 1);
    }
    if cursor.take("(") {
        if cursor.take(")") {
            return Ok(Expr::Number(0.0));
        }
        let inner = choice(cursor, leaf, depth + 1)?;
        return if cursor.take(")") { Ok(inner) } else { Err("a ) is missing".to_owned()) };
    }
    match cursor.peek().cloned() {
        Some(Token::Number(number)) => {
            cursor.at += 1;
            Ok(Expr::Number(number))
        }
        Some(Token::Name(name)) => {
            cursor.at += 1;
            leaf(&name, cursor)
        }
        Some(token) => Err(format!("expected a value, found {}", show(&token))),
        None => Err("expected a value, found the end".to_owned()),
    }
}

/// Division by zero, a fatal error in Perl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DivisionByZero;

impl<N> Expr<N> {
    /// The value, with `value` giving that of a name.
    pub(crate) fn value(&self, value: &dyn Fn(&N) -> f64) -> Result<f64, DivisionByZero> {
        Ok(match self {
            Expr::Number(number) => *number,
            Expr::Name(name) => value(name),
            Expr::Not(inner) => truth(inner.value(value)? == 0.0),
            Expr::Negate(inner) => -inner.value(value)?,
            Expr::Choose(condition, yes, no) => {
                let chosen = if condition.value(value)? == 0.0 { no } else { yes };
                chosen.value(value)?
            }
            Expr::Binary(op, left, right) => return binary(*op, left, right, value),
        })
    }

    /// Calls `visit` with every name, in order.
    pub(crate) fn names(&self, visit: &mut dyn FnMut(&N)) {
        match self {
            Expr::Number(_) => {}
            Expr::Name(name) => visit(name),
            Expr::Not(inner) | Expr::Negate(inner) => inner.names(visit),
            Expr::Binary(_, left, right) => {
                left.names(visit);
                right.names(visit);
            }
            Expr::Choose(condition, yes, no) => {
                condition.names(visit);
                yes.names(visit);
                no.names(visit);
            }
        }
    }
}

fn truth(yes: bool) -> f64 {
    f64::from(u8::from(yes))
}

fn binary<N>(
    op: Op,
    left: &Expr<N>,
    right: &Expr<N>,
    value: &dyn Fn(&N) -> f64,
) -> Result<f64, DivisionByZero> {
    let a = left.value(value)?;
    match op {
        Op::And if a == 0.0 => return Ok(a),
        Op::Or if a != 0.0 => return Ok(a),
        _ => {}
    }
    let b = right.value(value)?;
    Ok(match op {
        Op::And | Op::Or => b,
        Op::Xor => ((a as u64) ^ (b as u64)) as f64,
        Op::Equal => truth(a == b),
        Op::NotEqual => truth(a != b),
        Op::Less => truth(a < b),
        Op::LessEqual => truth(a <= b),
        Op::More => truth(a > b),
        Op::MoreEqual => truth(a >= b),
        Op::Add => a + b,
        Op::Subtract => a - b,
        Op::Multiply => a * b,
        Op::Divide if b == 0.0 => return Err(DivisionByZero),
        Op::Divide => a / b,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<f64, String> {
        let expr = parse(&tokens(text), &mut |name, _| Ok(Expr::Name(name.to_owned())))?;
        let value = |name: &String| match name.as_str() {
            "A" => 3.0,
            "B" => 1.0,
            _ => 0.0,
        };
        expr.value(&value).map_err(|_| "division by zero".to_owned())
    }

    #[test]
    fn perl_values() {
        assert_eq!(value("B && A"), Ok(3.0));
        assert_eq!(value("C || A"), Ok(3.0));
        assert_eq!(value("!A"), Ok(0.0));
        assert_eq!(value("(A + B + C) > 1"), Ok(1.0));
        assert_eq!(value("A + B - 2 * B"), Ok(2.0));
        assert_eq!(value("!C && B"), Ok(1.0));
        assert_eq!(value("A >= 3 ? 7 : 8"), Ok(7.0));
        assert_eq!(value("!A == B"), Ok(0.0), "! binds tighter than ==");
        assert_eq!(value("()"), Ok(0.0));
    }

    #[test]
    fn errors() {
        assert!(value("A B").is_err());
        assert!(value("A &&").is_err());
        assert!(value("(A").is_err());
        assert!(value("A/C").is_err());
        assert!(value("A +2").is_err(), "+2 is one invalid token, as in SpamAssassin");
        assert!(value(&"(".repeat(10_000)).is_err());
    }
}
