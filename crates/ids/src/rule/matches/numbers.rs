//! Numbers in bytes, and what else is computed of bytes.

use super::Amount;

/// Order of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endian {
    /// As on the network.
    Big,
    /// Least first.
    Little,
    /// As the DCERPC header says (`dce`).
    Dce,
}

/// How a number is written in the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Binary.
    Binary(Endian),
    /// Digits to this base, 8, 10 or 16; 0 decides by the prefix as strtoull does.
    Digits(u8),
}

/// How `byte_test` compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOperator {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `=`
    Equal,
    /// `>=`
    AtLeast,
    /// `>`
    More,
    /// `&`: any bit in common.
    And,
    /// `^`: no bit in common, as Suricata defines it: `value ^ extracted` is not 0.
    Xor,
}

/// `byte_test`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteTest {
    /// How many bytes.
    pub count: Amount,
    /// The comparison.
    pub operator: ByteOperator,
    /// It must fail.
    pub negated: bool,
    /// What it is compared to.
    pub value: Amount,
    /// Where.
    pub offset: Amount,
    /// From the end of the last match.
    pub relative: bool,
    /// How it is written.
    pub encoding: Encoding,
    /// `bitmask`, applied before the comparison and shifted to its lowest bit.
    pub mask: Option<u32>,
}

/// `byte_jump`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteJump {
    /// How many bytes; 0 jumps by `post_offset` alone.
    pub count: Amount,
    /// Where.
    pub offset: Amount,
    /// From the end of the last match.
    pub relative: bool,
    /// How it is written.
    pub encoding: Encoding,
    /// Factor.
    pub multiplier: u16,
    /// Rounded up to a multiple of 4.
    pub align: bool,
    /// Jumps from the start of the buffer.
    pub from_beginning: bool,
    /// Jumps from the end of the buffer.
    pub from_end: bool,
    /// Added at last.
    pub post_offset: i32,
}

/// `byte_extract`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteExtract {
    /// How many bytes.
    pub count: u8,
    /// Where.
    pub offset: i32,
    /// From the end of the last match.
    pub relative: bool,
    /// How it is written.
    pub encoding: Encoding,
    /// Factor.
    pub multiplier: u16,
    /// Rounded up to a multiple of 2 or 4.
    pub align: Option<u8>,
    /// Index of the variable.
    pub variable: u8,
}

/// Operators of `byte_math`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MathOperator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
}

/// `byte_math`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteMath {
    /// How many bytes.
    pub count: Amount,
    /// Where.
    pub offset: i32,
    /// From the end of the last match.
    pub relative: bool,
    /// How it is written.
    pub encoding: Encoding,
    /// The operator.
    pub operator: MathOperator,
    /// Its right side.
    pub right: Amount,
    /// `bitmask` of the value read.
    pub mask: Option<u32>,
    /// Index of the variable.
    pub variable: u8,
}

/// `entropy`.
#[derive(Debug, Clone, PartialEq)]
pub struct Entropy {
    /// Bytes from here.
    pub offset: i32,
    /// How many; 0 is all.
    pub bytes: i32,
    /// From the end of the last match.
    pub relative: bool,
    /// The comparison.
    pub compare: FloatCompare,
}

/// What a real number is compared to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FloatCompare {
    /// Equal.
    Equal(f64),
    /// Not equal.
    NotEqual(f64),
    /// Less.
    Less(f64),
    /// At most.
    AtMost(f64),
    /// More.
    More(f64),
    /// At least.
    AtLeast(f64),
    /// Between, ends excluded.
    Between(f64, f64),
    /// Outside, ends included.
    Outside(f64, f64),
}

/// `base64_decode`; what follows `base64_data` is in [`super::Rule::base64`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base64Decode {
    /// Most bytes to decode.
    pub bytes: Option<u32>,
    /// Where.
    pub offset: u32,
    /// From the end of the last match.
    pub relative: bool,
}

/// `asn1` checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asn1 {
    /// `bitstring_overflow`.
    pub bitstring_overflow: bool,
    /// `double_overflow`.
    pub double_overflow: bool,
    /// `oversize_length`.
    pub oversize_length: Option<u32>,
    /// `absolute_offset`.
    pub absolute_offset: Option<u16>,
    /// `relative_offset`.
    pub relative_offset: Option<i32>,
}
