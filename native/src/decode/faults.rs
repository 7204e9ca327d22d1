//! What is wrong with the values of a record whose text is in order, in the words of `JsonDecoder`.
//!
//! A value has a fault if it is of its column's kind, a number or a text, and is none that fits. Of
//! several faults `JsonDecoder` names the one that it meets first, and it does not read from left to
//! right: numbers are converted while a record is parsed, column by column; then NOT NULL is looked
//! at; then the columns are converted to what the table has, one after the other.

use arrow_schema::{DataType, Fields};

use super::kinds::holds_map;
use super::numbers;
use super::reason::{Frame, Kept, Reason};
use super::scan::Scalar;
use super::text::{Cursor, Text};
use super::times;
use crate::base64;

const NULL: Reason = Reason::fixed("null or no value in a NOT NULL column");
const BAD_YEAR: Reason = Reason::fixed("a time is not within the years 1 to 9999, in UTC");
const BAD_FLOAT: Reason = Reason::fixed("a number does not fit into FLOAT");
const LOST_DIGITS: Reason = Reason::fixed("Rescaling Decimal value would cause data loss");
const EMPTY_DECIMAL: Reason = Reason::fixed("Empty string cannot be converted to decimal256");
const NOT_ASCII: Reason =
    Reason::fixed("not base64: string argument should contain only ASCII characters");
const NOT_BASE64: Reason = Reason::fixed("not base64: Only base64 data is allowed");
const BAD_PADDING: Reason = Reason::fixed("not base64: Incorrect padding");

/// Digits on either side of the point that `JsonDecoder` reads of a DECIMAL.
const DECIMAL_SIDE_MAX: usize = 38;

/// The faults of one record.
#[derive(Default)]
pub struct Faults {
    /// The number of the column whose value is read.
    pub column: usize,
    has_map: Vec<bool>, // by column: `JsonDecoder` parses these after the others
    is_any: bool,
    is_unsure: bool,
    is_null: bool,
    numbers: Stage,
    conversions: Stage,
}

/// Faults that `JsonDecoder` meets at one stage: how many are in the first of the columns that have
/// some, and the last of them.
#[derive(Default)]
struct Stage {
    place: (bool, usize),
    count: usize,
    reason: Kept,
}

impl Faults {
    /// No faults, for records of these columns.
    pub fn new(fields: &Fields) -> Self {
        let has_map = fields.iter().map(|field| holds_map(field.data_type()));
        Faults {
            has_map: has_map.collect(),
            ..Faults::default()
        }
    }

    /// Whether there are any.
    #[inline(always)]
    pub fn is_any(&self) -> bool {
        self.is_any
    }

    /// Whether a number keeps the columns without maps from being parsed.
    pub fn is_any_number_before_maps(&self) -> bool {
        self.numbers.count > 0 && !self.numbers.place.0
    }

    /// Forget them.
    pub fn clear(&mut self) {
        self.is_any = false;
        self.is_unsure = false;
        self.is_null = false;
        self.numbers.count = 0;
        self.conversions.count = 0;
    }

    /// The one that `JsonDecoder` meets first; unknown where it is not certain which that is, or
    /// whether it is one.
    pub fn first(&self) -> Reason<'_> {
        if self.is_unsure {
            Reason::Unknown
        } else if self.numbers.count > 0 {
            self.numbers.single()
        } else if self.is_null {
            NULL
        } else {
            self.conversions.single()
        }
    }

    /// Note that a column has no value, and needs one.
    pub fn note_null(&mut self) {
        self.is_any = true;
        self.is_null = true;
    }

    /// Note what keeps a number from being one of its column: it does not fit.
    pub fn note_number(&mut self, wanted: &DataType, token: &[u8]) {
        match wanted {
            DataType::Int8 => self.add_number(Reason::Words(Frame::Int8, token)),
            DataType::Int16 => self.add_number(Reason::Words(Frame::Int16, token)),
            DataType::Int32 => self.add_number(Reason::Words(Frame::Int32, token)),
            DataType::Int64 => self.add_number(Reason::Words(Frame::Int64, token)),
            DataType::Float32 => {
                let is_double = parse(token, numbers::parse_double).is_some();
                self.add_conversion(if is_double {
                    BAD_FLOAT
                } else {
                    Reason::Unknown
                });
            }
            DataType::Decimal128(precision, scale) => {
                self.note_decimal(token, *precision, *scale as u8);
            }
            _ => self.add_unsure(),
        }
    }

    /// Note what keeps a text, without its quotes, from being a value of its column: it does not
    /// fit. `is_plain`: it was written without escapes.
    pub fn note_text(&mut self, wanted: &DataType, text: &[u8], is_plain: bool) {
        match wanted {
            DataType::Date32 if is_plain => self.note_date(text),
            DataType::Timestamp(_, zone) if is_plain => self.note_time(text, zone.is_some()),
            DataType::Binary if is_plain => self.note_base64(text),
            DataType::Date32 | DataType::Timestamp(..) | DataType::Binary => {
                self.add_conversion(Reason::Unknown);
            }
            DataType::Decimal128(precision, scale) if is_plain => {
                self.note_decimal(text, *precision, *scale as u8);
            }
            _ => self.add_unsure(), // an escape may write an exponent
        }
    }

    fn note_decimal(&mut self, token: &[u8], precision: u8, scale: u8) {
        if let Some((whole, behind)) = split_decimal(token) {
            return self.note_digits(whole, behind, precision, scale);
        }
        if token.is_empty() {
            return self.add_number(EMPTY_DECIMAL);
        }
        if token.iter().any(|byte| byte | 0x20 == b'e') {
            if token.windows(2).any(|pair| matches!(pair, b"e-" | b"E-")) {
                return self.add_unsure(); // `JsonDecoder` looks at these before anything else
            }
            let may_be_number = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
            if token.iter().all(may_be_number) {
                return self.add_number(Reason::Unknown);
            }
        }
        self.add_number(Reason::Words(Frame::Decimal, token));
    }

    /// As `note_decimal`, of a number by its digits on both sides of the point.
    fn note_digits(&mut self, whole: &[u8], behind: &[u8], precision: u8, scale: u8) {
        if whole.len() > DECIMAL_SIDE_MAX || behind.len() > DECIMAL_SIDE_MAX {
            return self.add_number(Reason::Unknown);
        }
        let is_not_zero = |digit: &u8| *digit != b'0';
        let scale_needed = behind.iter().rposition(is_not_zero).map_or(0, |at| at + 1);
        if scale_needed > scale as usize {
            return self.add_conversion(LOST_DIGITS);
        }
        let zeros = whole.iter().position(is_not_zero).unwrap_or(whole.len());
        if whole.len() - zeros > (precision - scale) as usize {
            let digits = [b'0' + precision / 10, b'0' + precision % 10];
            let digits = if precision < 10 {
                &digits[1..]
            } else {
                &digits
            };
            return self.add_conversion(Reason::Words(Frame::Precision, digits));
        }
        self.add_conversion(Reason::Unknown); // it is one
    }

    fn note_date(&mut self, text: &[u8]) {
        if times::is_time(text) && text.len() == 10 {
            return self.add_conversion(BAD_YEAR);
        }
        self.add_conversion(Reason::Words(Frame::Date, text));
    }

    /// See `_to_instants` in src/ashore/topics/decode/wire.py for what is parsed as what.
    fn note_time(&mut self, text: &[u8], may_have_zone: bool) {
        let Some(text) = times::cut_fractions(text) else {
            return self.add_conversion(Reason::Unknown);
        };
        let has_zone = times::is_zone_seen(&text);
        let is_zone_wanted = may_have_zone && times::ends_like_zone(&text);
        if times::is_time(&text) && has_zone == is_zone_wanted {
            return self.add_conversion(BAD_YEAR);
        }
        let frame = match (is_zone_wanted, has_zone) {
            (true, false) => Frame::TimeWithoutZone,
            (true, true) => Frame::Time,
            (false, true) => Frame::LocalTimeWithZone,
            (false, false) => Frame::LocalTime,
        };
        self.add_conversion(Reason::Words(frame, &text));
    }

    /// See Python's `binascii.a2b_base64` with `strict_mode`.
    fn note_base64(&mut self, text: &[u8]) {
        let is_data = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
        let count = text.iter().take_while(|byte| is_data(byte)).count();
        let digits; // of the count
        self.add_conversion(match text.get(count) {
            _ if !text.is_ascii() => NOT_ASCII,
            Some(b'=') => Reason::Unknown,
            Some(_) => NOT_BASE64,
            None if count % 4 != 1 => BAD_PADDING,
            None => {
                digits = count.to_string();
                Reason::Words(Frame::Base64, digits.as_bytes())
            }
        });
    }

    fn add_number(&mut self, reason: Reason<'_>) {
        self.is_any = true;
        let has_map = self.has_map.get(self.column).copied().unwrap_or(false);
        self.numbers.add((has_map, self.column), reason);
    }

    fn add_unsure(&mut self) {
        self.is_any = true;
        self.is_unsure = true;
    }

    fn add_conversion(&mut self, reason: Reason<'_>) {
        self.is_any = true;
        self.conversions.add((false, self.column), reason);
    }
}

impl Stage {
    fn add(&mut self, place: (bool, usize), reason: Reason<'_>) {
        if self.count > 0 && place > self.place {
            return;
        }
        if place < self.place {
            self.count = 0;
        }
        self.place = place;
        self.count += 1;
        self.reason.set(reason);
    }

    /// The reason of the only one; unknown: there are more, or none.
    fn single(&self) -> Reason<'_> {
        if self.count == 1 {
            self.reason.get()
        } else {
            Reason::Unknown
        }
    }
}

/// Whether a number, or a text with its quotes that has no escapes, is a value of a type for those
/// of its kind.
pub fn fits(wanted: &DataType, token: &[u8]) -> bool {
    let text = || &token[1..token.len() - 1];
    match wanted {
        DataType::Int8 => is_one::<i8>(token),
        DataType::Int16 => is_one::<i16>(token),
        DataType::Int32 => is_one::<i32>(token),
        DataType::Int64 => is_one::<i64>(token),
        DataType::Float32 => parse(token, numbers::parse_double)
            .is_some_and(|each| numbers::to_float(each).is_some()),
        DataType::Decimal128(precision, scale) => parse(token, |at| {
            numbers::parse_decimal(at, *precision, *scale as u8)
        })
        .is_some(),
        DataType::Date32 => times::parse_date(text()).is_some(),
        DataType::Timestamp(_, zone) => times::parse_time(text(), zone.is_some()).is_some(),
        DataType::Binary => base64::decode(text(), &mut Vec::new()).is_some(),
        _ => true,
    }
}

fn is_one<T: std::str::FromStr>(token: &[u8]) -> bool {
    std::str::from_utf8(token).is_ok_and(|text| text.parse::<T>().is_ok())
}

/// What a parser of the fast path makes of a token.
fn parse<T>(token: &[u8], with: impl Fn(Cursor) -> Option<(T, Cursor)>) -> Option<T> {
    let mut text = Text::default();
    text.set::<Scalar>(token);
    with(text.start())
        .filter(|(_, end)| end.left() == 0)
        .map(|(value, _)| value)
}

/// The digits on both sides of the point, of a number without exponent as Arrow reads a DECIMAL;
/// none where it is no number.
fn split_decimal(token: &[u8]) -> Option<(&[u8], &[u8])> {
    let unsigned = token.strip_prefix(b"+").or(token.strip_prefix(b"-"));
    let digits = unsigned.unwrap_or(token);
    let point = digits.iter().position(|byte| !byte.is_ascii_digit());
    let (whole, rest) = digits.split_at(point.unwrap_or(digits.len()));
    let behind = match rest {
        [] => rest,
        [b'.', behind @ ..] => behind,
        _ => return None,
    };
    let is_number = behind.iter().all(u8::is_ascii_digit) && whole.len() + behind.len() > 0;
    is_number.then_some((whole, behind))
}
