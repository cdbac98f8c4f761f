//! Letters as strokes of a pen, for drawings that no reader sets in a typeface: pictures of points.
//!
//! A letter is drawn on a grid: across in halves of a unit, up in units; the base line is at 2, small letters
//! reach 7, large ones 9, tails 0. Each stroke is a row of two-digit places; `~` before it rounds its corners.

/// Units from the base line to the top of a large letter.
pub(super) const CAP: f64 = 7.0;
/// The base line.
const BASE: f64 = 2.0;
/// Units between two letters, in halves.
const GAP: f64 = 3.0;
/// Halves of units that a space takes.
const SPACE: f64 = 5.0;
/// How often corners of rounded strokes are cut.
const CUTS: usize = 3;

/// Each letter with its strokes.
const LETTERS: [(char, &str); 98] = [
    ('!', "09 04,02 02"),
    ('"', "09 07,29 27"),
    ('#', "12 29,52 69,06 76,04 74"),
    ('$', "~78 79 09 06 76 72 02 03,40 41,49 49"),
    ('%', "02 89,~08 09 29 27 07 08,~63 64 84 82 62 63"),
    ('&', "72 08 09 49 48 05 02 42 75"),
    ('\'', "09 07"),
    ('(', "~29 07 04 21"),
    (')', "~09 27 24 01"),
    ('*', "35 39,06 68,08 66"),
    ('+', "04 64,32 36"),
    (',', "12 01"),
    ('-', "04 34"),
    ('.', "02 02"),
    ('/', "02 59"),
    ('0', "~05 09 69 62 02 05"),
    ('1', "07 29 22"),
    ('2', "~07 09 69 65 02,02 62"),
    ('3', "~08 09 69 66 26,~26 66 62 02 03"),
    ('4', "42 49 04 64"),
    ('5', "69 09 06,~06 66 62 02 03"),
    ('6', "~68 69 09 02 62 66 06 05"),
    ('7', "09 69 22"),
    ('8', "~36 06 09 69 66 36,~36 06 02 62 66 36"),
    ('9', "~03 02 62 69 09 05 65 66"),
    (':', "02 02,06 06"),
    (';', "12 01,16 16"),
    ('<', "66 04 62"),
    ('=', "05 65,03 63"),
    ('>', "06 64 02"),
    ('?', "~08 09 69 66 35 34,32 32"),
    ('@', "~74 76 36 33 73 93 99 09 01 81"),
    ('A', "02 49 82,15 75"),
    ('B', "02 09,~09 79 76 06,~06 86 82 02"),
    ('C', "~88 89 09 02 82 83"),
    ('D', "02 09,~09 89 82 02"),
    ('E', "79 09 02 72,06 66"),
    ('F', "79 09 02,06 66"),
    ('G', "~88 89 09 02 82 85,85 55"),
    ('H', "02 09,82 89,06 86"),
    ('I', "02 09"),
    ('J', "~49 42 02 03"),
    ('K', "09 02,79 05,26 82"),
    ('L', "09 02 72"),
    ('M', "02 09 45 89 82"),
    ('N', "02 09 82 89"),
    ('O', "~05 09 89 82 02 05"),
    ('P', "02 09,~09 89 85 05"),
    ('Q', "~05 09 89 82 02 05,54 92"),
    ('R', "02 09,~09 89 85 05,45 82"),
    ('S', "~78 79 09 06 76 72 02 03"),
    ('T', "09 89,49 42"),
    ('U', "~09 02 82 89"),
    ('V', "09 42 89"),
    ('W', "09 22 48 72 99"),
    ('X', "02 89,09 82"),
    ('Y', "09 45 89,45 42"),
    ('Z', "09 89 02 82"),
    ('[', "29 09 01 21"),
    ('\\', "09 52"),
    (']', "09 29 21 01"),
    ('^', "07 29 47"),
    ('_', "01 71"),
    ('`', "09 18"),
    ('a', "~67 07 02 62,67 62"),
    ('b', "09 02,~07 67 62 02"),
    ('c', "~56 57 07 02 52 53"),
    ('d', "69 62,~67 07 02 62"),
    ('e', "05 65,~65 67 07 02 62 63"),
    ('f', "~49 29 22,07 47"),
    ('g', "~67 60 00 01,~67 07 02 62"),
    ('h', "09 02,~05 07 67 62"),
    ('i', "07 02,09 09"),
    ('j', "~27 20 00,29 29"),
    ('k', "09 02,57 04,15 62"),
    ('l', "09 02"),
    ('m', "07 02,~05 07 47 42,~45 47 87 82"),
    ('n', "07 02,~05 07 67 62"),
    ('o', "~05 07 67 62 02 05"),
    ('p', "07 00,~07 67 62 02"),
    ('q', "67 60,~67 07 02 62"),
    ('r', "07 02,~04 07 47"),
    ('s', "~56 57 07 05 55 52 02 03"),
    ('t', "~29 22 42,07 47"),
    ('u', "~07 02 62 64,67 62"),
    ('v', "07 32 67"),
    ('w', "07 22 46 62 87"),
    ('x', "02 67,07 62"),
    ('y', "67 20 00,07 42"),
    ('z', "07 67 02 62"),
    ('{', "~49 29 25 05,~05 25 21 41"),
    ('|', "09 00"),
    ('}', "~09 29 25 45,~45 25 21 01"),
    ('~', "~04 06 33 63 65"),
    ('–', "04 64"),
    ('µ', "07 00,~07 02 62 64,67 62"),
    ('×', "02 66,06 62"),
    ('\u{fffd}', "02 09 69 62 02"),
];

/// A stroke: places from the start of the line, in units to the right and above the base line.
type Stroke = Vec<(f64, f64)>;

/// The strokes of a line, and how wide it is in units. What there is no letter for becomes a box.
pub(super) fn strokes(text: &str) -> (Vec<Stroke>, f64) {
    let (mut all, mut right) = (Vec::new(), 0.0);
    for character in text.chars() {
        if character == ' ' {
            right += SPACE;
            continue;
        }
        let known = LETTERS.iter().find(|l| l.0 == character).or(LETTERS.last());
        let Some((_, drawn)) = known else { continue };
        let mut width: f64 = 0.0;
        for stroke in drawn.split(',') {
            let (rounded, places) = match stroke.strip_prefix('~') {
                Some(places) => (true, places),
                None => (false, stroke),
            };
            let mut points: Stroke = places.split(' ').filter_map(place).collect();
            width = points.iter().fold(width, |most, p| most.max(p.0));
            points.iter_mut().for_each(|p| *p = ((right + p.0) / 2.0, p.1 - BASE));
            all.push(if rounded { (0..CUTS).fold(points, |p, _| cut(&p)) } else { points });
        }
        right += width + GAP;
    }
    (all, (right - GAP).max(0.0) / 2.0)
}

fn place(digits: &str) -> Option<(f64, f64)> {
    let mut digits = digits.chars().filter_map(|c| c.to_digit(10)).map(f64::from);
    Some((digits.next()?, digits.next()?))
}

/// Cuts the corners off a stroke (Chaikin, 1974); its ends stay.
fn cut(points: &[(f64, f64)]) -> Stroke {
    let (Some(&first), Some(&last)) = (points.first(), points.last()) else { return Vec::new() };
    let mut out = vec![first];
    for pair in points.windows(2) {
        if let &[a, b] = pair {
            let at = |share: f64| (a.0 + share * (b.0 - a.0), a.1 + share * (b.1 - a.1));
            out.extend([at(0.25), at(0.75)]);
        }
    }
    out.push(last);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_letter_is_drawn_within_its_grid() {
        for (letter, drawn) in LETTERS {
            for pair in drawn.split(',').flat_map(|s| s.trim_start_matches('~').split(' ')) {
                assert!(pair.len() == 2 && place(pair).is_some(), "{letter}: {pair}");
            }
        }
        for byte in 0x21..0x7f_u8 {
            assert!(LETTERS.iter().any(|l| l.0 == char::from(byte)), "{}", char::from(byte));
        }
    }

    #[test]
    fn words_are_as_wide_as_their_letters() {
        let (one, wide) = (strokes("H").1, strokes("H H").1);
        assert_eq!((one, wide), (4.0, 4.0 + 1.5 + 2.5 + 4.0));
        assert_eq!(strokes("").1, 0.0);
        assert_eq!(strokes("語").0, strokes("\u{fffd}").0, "a box for what is not known");
        let (drawn, width) = strokes("~gÄ µs");
        assert!(drawn.iter().flatten().all(|p| p.0 >= 0.0 && p.0 <= width && p.1 >= -2.0));
    }
}
