//! Why a record is no row, in the words of `JsonDecoder`.
//!
//! Only records that were refused come here. The reasons are those of the parser that
//! `JsonDecoder` uses (RapidJSON, below Arrow), in its order: what is wrong with the text or with the
//! kind of a value, wherever it stands first; then numbers that do not fit; then nulls; then what
//! a conversion refuses. Whatever is not told here for certain has no reason, and `JsonDecoder` is asked.

use arrow_schema::{DataType, Field, Fields};

use super::scan::Scalar;
use super::skip::DEPTH_MAX;
use super::text::Text;
use super::{numbers, times};

const EMPTY: &str = "empty value";
const NOT_AN_OBJECT: &str = "not a JSON object";
const NOT_UTF8: &str = "not UTF-8";
const NULL: &str = "null or no value in a NOT NULL column";
const BAD_YEAR: &str = "a time is not within the years 1 to 9999, in UTC";
const BAD_FLOAT: &str = "a number does not fit into FLOAT";
const NO_MAP: &str = "the value of a MAP column is not an object";
const MAP_TWICE: &str = "a key appears twice in a MAP";
const LOST_DIGITS: &str = "Rescaling Decimal value would cause data loss";
const TOO_BIG: &str = "Number too big to be stored in double.";
const REASON_MAX: usize = 200;

/// Says why records are no rows of one schema.
pub struct Judge {
    fast: Vec<Field>,
    slow: Vec<Field>, // those with maps, which `JsonDecoder` parses after the others
    has_decimal: bool,
}

/// Why parsing ends before the end.
enum Stop {
    Because(String),
    Unsure,
}

type Step<T> = Result<T, Stop>;

/// What is wrong with values of a text that can be parsed. A reason may be unknown.
#[derive(Default)]
struct Faults {
    numbers: Vec<Option<String>>,
    is_null: bool,
    conversions: Vec<Option<String>>,
}

impl Judge {
    /// A judge for tables of these columns.
    pub fn new(fields: &Fields) -> Self {
        let (slow, fast) =
            fields
                .iter()
                .map(|field| field.as_ref().clone())
                .partition(|field: &Field| {
                    holds(field.data_type(), &|t| matches!(t, DataType::Map(..)))
                });
        let is_decimal = |t: &DataType| matches!(t, DataType::Decimal128(..));
        let has_decimal = fields
            .iter()
            .any(|field| holds(field.data_type(), &is_decimal));
        Judge {
            fast,
            slow,
            has_decimal,
        }
    }

    /// Why a refused record is no row; None: ask `JsonDecoder`, for which it may be one.
    pub fn explain(&self, record: Option<&[u8]>) -> Option<String> {
        let text = trim(record.unwrap_or_default());
        if text.is_empty() {
            return Some(EMPTY.to_owned());
        }
        if !text.starts_with(b"{") || !text.ends_with(b"}") {
            return Some(NOT_AN_OBJECT.to_owned());
        }
        if self.has_decimal
            && text
                .windows(2)
                .any(|pair| matches!(pair, b"e-" | b"E-" | b"\\u"))
        {
            return None; // `JsonDecoder` looks at such texts before anything else
        }
        if simdutf8::basic::from_utf8(text).is_err() {
            return Some(NOT_UTF8.to_owned());
        }
        let reason = if self.slow.is_empty() {
            self.explain_without_maps(text)
        } else {
            self.explain_with_maps(text)
        };
        reason.map(|text| text.chars().take(REASON_MAX).collect())
    }

    fn explain_without_maps(&self, text: &[u8]) -> Option<String> {
        match Reader::read(text, &self.fast, false) {
            Ok(faults) => faults.first(),
            Err(Stop::Because(reason)) => Some(reason),
            Err(Stop::Unsure) => None,
        }
    }

    /// As above. Python's parser comes first there, with words of its own: it is asked for them.
    fn explain_with_maps(&self, text: &[u8]) -> Option<String> {
        Reader::read(text, &[], false).ok()?;
        if let Err(stop) = Reader::read(text, &self.slow, true) {
            return stop.reason();
        }
        let fast = match Reader::read(text, &self.fast, false) {
            Ok(faults) => faults,
            Err(stop) => return stop.reason(),
        };
        if !fast.numbers.is_empty() {
            return fast.first();
        }
        let slow = match Reader::read(text, &self.slow, false) {
            Ok(faults) => faults,
            Err(stop) => return stop.reason(),
        };
        let conversions = [fast.conversions, slow.conversions].concat();
        Faults {
            numbers: slow.numbers,
            is_null: fast.is_null || slow.is_null,
            conversions,
        }
        .first()
    }
}

impl Stop {
    fn reason(self) -> Option<String> {
        match self {
            Stop::Because(reason) => Some(reason),
            Stop::Unsure => None,
        }
    }
}

impl Faults {
    /// The one that `JsonDecoder` meets first, where it is certain which that is.
    fn first(mut self) -> Option<String> {
        if self.numbers.len() > 1 {
            return None;
        }
        if let Some(reason) = self.numbers.pop() {
            return reason;
        }
        if self.is_null {
            return Some(NULL.to_owned());
        }
        if self.conversions.len() > 1 {
            None
        } else {
            self.conversions.pop()?
        }
    }
}

fn holds(data_type: &DataType, asked: &dyn Fn(&DataType) -> bool) -> bool {
    asked(data_type)
        || match data_type {
            DataType::List(inner) | DataType::Map(inner, _) => holds(inner.data_type(), asked),
            DataType::Struct(fields) => fields.iter().any(|each| holds(each.data_type(), asked)),
            _ => false,
        }
}

fn trim(mut text: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    while let Some((first, rest)) = text.split_first()
        && is_space(first)
    {
        text = rest;
    }
    while let Some((last, rest)) = text.split_last()
        && is_space(last)
    {
        text = rest;
    }
    text
}

fn stop<T>(reason: &str) -> Step<T> {
    Err(Stop::Because(reason.to_owned()))
}

/// Reads one text, step by step as RapidJSON does.
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    faults: Faults,
    /// Only whether the values of maps are objects with different keys is asked, as Python does.
    is_about_maps: bool,
    path: String,
}

/// What is known of the place of a value: its column's type; None: no column wants it.
type Wanted<'t> = Option<&'t DataType>;

impl<'a> Reader<'a> {
    fn read(text: &'a [u8], fields: &[Field], is_about_maps: bool) -> Step<Faults> {
        let faults = Faults::default();
        let mut reader = Reader {
            text,
            at: 0,
            faults,
            is_about_maps,
            path: String::new(),
        };
        let fields: Vec<&Field> = fields.iter().collect();
        reader.object(Some(&fields), 0)?;
        if reader.at < text.len() {
            return Err(Stop::Unsure); // another document, or something else
        }
        Ok(reader.faults)
    }

    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
        }
    }

    fn starts(&self, word: &[u8]) -> bool {
        self.text[self.at..].starts_with(word)
    }

    /// An object, from its brace on. `fields`: of the column; None: no column wants it.
    fn object(&mut self, fields: Option<&[&Field]>, depth: usize) -> Step<()> {
        self.at += 1;
        let mut seen = vec![false; fields.map_or(0, <[_]>::len)];
        self.space();
        if self.peek() == b'}' {
            self.at += 1;
        } else {
            loop {
                let key = self.key()?;
                let field = fields
                    .and_then(|all| all.iter().position(|each| each.name().as_bytes() == key));
                let length = self.path.len();
                let mut wanted = None;
                if let (Some(field), Some(all)) = (field, fields) {
                    self.path = format!("{}/{}", self.path, all[field].name());
                    if std::mem::replace(&mut seen[field], true) && !self.is_about_maps {
                        return stop(&format!("Column({}) was specified twice", self.path));
                    }
                    wanted = Some(all[field].data_type());
                    self.colon()?;
                    if !all[field].is_nullable() && self.starts(b"null") {
                        self.faults.is_null = true;
                    }
                } else {
                    self.colon()?;
                }
                self.value(wanted, depth)?;
                self.path.truncate(length);
                if self.ends(b'}', "Missing a comma or '}' after an object member.")? {
                    break;
                }
            }
        }
        let mut all = fields.unwrap_or_default().iter().zip(&seen);
        self.faults.is_null |= all.any(|(field, seen)| !seen && !field.is_nullable());
        Ok(())
    }

    fn key(&mut self) -> Step<Vec<u8>> {
        if self.peek() != b'"' {
            return stop("Missing a name for object member.");
        }
        self.string().map(|(key, _)| key)
    }

    fn colon(&mut self) -> Step<()> {
        self.space();
        if self.peek() != b':' {
            return stop("Missing a colon after a name of object member.");
        }
        self.at += 1;
        self.space();
        Ok(())
    }

    /// Whether a list of values ends here, with `last`; false: a comma was passed.
    fn ends(&mut self, last: u8, missing: &str) -> Step<bool> {
        self.space();
        let found = self.peek();
        if found != last && found != b',' {
            return stop(missing);
        }
        self.at += 1;
        if found == b',' {
            self.space();
        }
        Ok(found == last)
    }

    fn value(&mut self, wanted: Wanted<'_>, depth: usize) -> Step<()> {
        if depth > DEPTH_MAX {
            return Err(Stop::Unsure);
        }
        if let (Some(DataType::Map(..)), true) = (wanted, self.is_about_maps)
            && !matches!(self.peek(), b'{' | b'n')
        {
            return stop(NO_MAP);
        }
        match self.peek() {
            b'n' => self.word(b"null"),
            b't' => self
                .word(b"true")
                .and_then(|()| self.expect(wanted, "boolean")),
            b'f' => self
                .word(b"false")
                .and_then(|()| self.expect(wanted, "boolean")),
            b'"' => {
                let start = self.at;
                let (text, is_plain) = self.string()?;
                self.expect(wanted, "string")?;
                self.judge_text(wanted, &text, is_plain, start);
                Ok(())
            }
            b'[' => self.array(wanted, depth),
            b'{' => self.inner_object(wanted, depth),
            _ => {
                let start = self.at;
                self.number()?;
                self.expect(wanted, "number")?;
                self.judge_number(wanted, start);
                Ok(())
            }
        }
    }

    fn word(&mut self, word: &[u8]) -> Step<()> {
        if !self.starts(word) {
            return stop("Invalid value.");
        }
        self.at += word.len();
        Ok(())
    }

    /// Stop unless a value of this kind may stand in its column.
    fn expect(&self, wanted: Wanted<'_>, kind: &str) -> Step<()> {
        let Some(wanted) = wanted else { return Ok(()) };
        let expected = kind_of(wanted);
        if expected == kind || expected == "number_or_string" && matches!(kind, "number" | "string")
        {
            return Ok(());
        }
        if self.is_about_maps {
            return Ok(());
        }
        stop(&format!(
            "Column({}) changed from {expected} to {kind}",
            self.path
        ))
    }

    fn array(&mut self, wanted: Wanted<'_>, depth: usize) -> Step<()> {
        self.expect(wanted, "array")?;
        let element = match wanted {
            Some(DataType::List(element)) => Some(element.data_type()),
            _ => None,
        };
        let length = self.path.len();
        self.path.push_str("/[]");
        self.at += 1;
        self.space();
        if self.peek() == b']' {
            self.at += 1;
        } else {
            loop {
                self.value(element, depth + 1)?;
                if self.ends(b']', "Missing a comma or ']' after an array element.")? {
                    break;
                }
            }
        }
        self.path.truncate(length);
        Ok(())
    }

    fn inner_object(&mut self, wanted: Wanted<'_>, depth: usize) -> Step<()> {
        match wanted {
            Some(DataType::Map(entry, _)) => self.map(entry, depth + 1),
            Some(DataType::Struct(fields)) => {
                let fields: Vec<&Field> = fields.iter().map(AsRef::as_ref).collect();
                self.object(Some(&fields), depth + 1)
            }
            _ => {
                self.expect(wanted, "object")?;
                self.object(None, depth + 1)
            }
        }
    }

    fn map(&mut self, entry: &Field, depth: usize) -> Step<()> {
        let DataType::Struct(pair) = entry.data_type() else {
            return Err(Stop::Unsure);
        };
        let length = self.path.len();
        self.path.push_str("/[]/value");
        self.at += 1;
        self.space();
        let mut keys = Vec::new();
        if self.peek() == b'}' {
            self.at += 1;
        } else {
            loop {
                keys.push(self.key()?);
                self.colon()?;
                self.value(Some(pair[1].data_type()), depth)?;
                if self.ends(b'}', "")? {
                    break;
                }
            }
        }
        self.path.truncate(length);
        keys.sort_unstable();
        if self.is_about_maps && keys.windows(2).any(|two| two[0] == two[1]) {
            return stop(MAP_TWICE);
        }
        Ok(())
    }

    /// A text without its escapes, and whether it had none.
    fn string(&mut self) -> Step<(Vec<u8>, bool)> {
        self.at += 1;
        let (mut text, mut is_plain) = (Vec::new(), true);
        loop {
            match self.peek() {
                b'"' => {
                    self.at += 1;
                    return Ok((text, is_plain));
                }
                b'\\' => {
                    is_plain = false;
                    self.escape(&mut text)?;
                }
                0 => return stop("Missing a closing quotation mark in string."),
                1..0x20 => return stop("Invalid encoding in string."),
                byte => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Step<()> {
        let letter = self.text.get(self.at + 1).copied().unwrap_or(0);
        self.at += 2;
        match letter {
            b'"' | b'\\' | b'/' => text.push(letter),
            b'b' => text.push(8),
            b'f' => text.push(12),
            b'n' => text.push(b'\n'),
            b'r' => text.push(b'\r'),
            b't' => text.push(b'\t'),
            b'u' => {
                let letter = self.unicode()?;
                text.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => return stop("Invalid escape character in string."),
        }
        Ok(())
    }

    fn unicode(&mut self) -> Step<char> {
        const HALF: &str = "The surrogate pair in string is invalid.";
        let high = self.unit()?;
        if !(0xd800..0xe000).contains(&high) {
            return char::from_u32(high).ok_or(Stop::Unsure);
        }
        if high >= 0xdc00 || !self.starts(b"\\u") {
            return stop(HALF);
        }
        self.at += 2;
        let low = self.unit()?;
        if !(0xdc00..0xe000).contains(&low) {
            return stop(HALF);
        }
        char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)).ok_or(Stop::Unsure)
    }

    fn unit(&mut self) -> Step<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            let Some(digit) = (self.peek() as char).to_digit(16) else {
                return stop("Incorrect hex digit after \\u escape in string.");
            };
            unit = unit << 4 | digit;
            self.at += 1;
        }
        Ok(unit)
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Step<()> {
        if self.peek() == b'-' {
            self.at += 1;
        }
        let mut count = 1;
        match self.peek() {
            b'0' => self.at += 1,
            b'1'..=b'9' => count = self.digits(),
            b'N' => return self.word(b"NaN"),
            b'I' => {
                self.word(b"Inf")?;
                if self.starts(b"inity") {
                    self.at += 5;
                }
                // `Infi` and so on: the words of the parser differ.
                return if self.peek() == b'i' {
                    Err(Stop::Unsure)
                } else {
                    Ok(())
                };
            }
            _ => return stop("Invalid value."),
        }
        let mut behind = 0;
        if self.peek() == b'.' {
            self.at += 1;
            behind = self.digits();
            if behind == 0 {
                return stop("Miss fraction part in number.");
            }
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.exponent(count, behind)?;
        }
        Ok(())
    }

    fn exponent(&mut self, count: usize, behind: usize) -> Step<()> {
        self.at += 1;
        let is_negative = self.peek() == b'-';
        if matches!(self.peek(), b'-' | b'+') {
            self.at += 1;
        }
        let start = self.at;
        let size = self.digits();
        if size == 0 {
            return stop("Miss exponent in number.");
        }
        let exponent: usize = std::str::from_utf8(&self.text[start..self.at])
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(usize::MAX);
        if is_negative || exponent <= 250 {
            return Ok(());
        }
        // What is close to the limit depends on how the parser counts digits.
        if count + behind <= 15 && exponent > 308 + behind {
            stop(TOO_BIG)
        } else {
            Err(Stop::Unsure)
        }
    }

    /// Note what keeps a number from being one of its column.
    fn judge_number(&mut self, wanted: Wanted<'_>, start: usize) {
        let token = &self.text[start..self.at];
        let text = String::from_utf8_lossy(token);
        let fits = match wanted {
            Some(DataType::Int8) => text.parse::<i8>().is_ok(),
            Some(DataType::Int16) => text.parse::<i16>().is_ok(),
            Some(DataType::Int32) => text.parse::<i32>().is_ok(),
            Some(DataType::Int64) => text.parse::<i64>().is_ok(),
            Some(DataType::Float32) => {
                if parse(token, numbers::parse_double)
                    .is_none_or(|v| numbers::to_float(v).is_none())
                {
                    let is_known = parse(token, numbers::parse_double).is_some();
                    self.faults
                        .conversions
                        .push(is_known.then(|| BAD_FLOAT.to_owned()));
                }
                return;
            }
            Some(DataType::Decimal128(precision, scale)) => {
                return self.judge_decimal(token, token, *precision, *scale as u8);
            }
            _ => return,
        };
        if !fits {
            let bits = match wanted {
                Some(DataType::Int8) => 8,
                Some(DataType::Int16) => 16,
                Some(DataType::Int32) => 32,
                _ => 64,
            };
            let reason = format!("Failed to convert JSON to int{bits}, couldn't parse:{text}");
            self.faults.numbers.push(Some(reason));
        }
    }

    /// As above; `whole` is the token with its quotes, if it has some.
    fn judge_decimal(&mut self, token: &[u8], whole: &[u8], precision: u8, scale: u8) {
        if parse(whole, |at| numbers::parse_decimal(at, precision, scale)).is_some() {
            return;
        }
        let digits = token.iter().filter(|byte| byte.is_ascii_digit()).count();
        let is_plain = token
            .iter()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.'));
        // Beyond 15 digits the words depend on more than the number.
        if !is_plain || digits > 15 || token.first().is_none_or(|byte| *byte == b'.') {
            self.faults.numbers.push(None);
            return;
        }
        // With more digits it is the scale that fails, with fewer the precision.
        if parse(whole, |at| numbers::parse_decimal(at, 38, scale)).is_some() {
            let reason = format!("Decimal value does not fit in precision {precision}");
            self.faults.conversions.push(Some(reason));
            return;
        }
        let behind = token.iter().rev().take_while(|byte| **byte == b'0').count();
        let shorter = &token[..token.len() - behind];
        let places = shorter
            .iter()
            .position(|byte| *byte == b'.')
            .map_or(0, |p| shorter.len() - p - 1);
        let is_certain = token.contains(&b'.') && places > scale as usize;
        self.faults
            .conversions
            .push(is_certain.then(|| LOST_DIGITS.to_owned()));
    }

    /// Note what keeps a text from being a value of its column.
    fn judge_text(&mut self, wanted: Wanted<'_>, text: &[u8], is_plain: bool, start: usize) {
        let fault = match wanted {
            Some(DataType::Date32) if times::parse_date(text).is_none() => date_fault(text),
            Some(DataType::Timestamp(_, zone))
                if times::parse_time(text, zone.is_some()).is_none() =>
            {
                time_fault(text, zone.is_some())
            }
            Some(DataType::Binary) => {
                let mut bytes = Vec::new();
                if super::base64::decode(text, &mut bytes).is_some() {
                    return;
                }
                None
            }
            Some(DataType::Decimal128(precision, scale)) => {
                let whole = &self.text[start..self.at];
                if is_plain && !text.is_empty() {
                    self.judge_decimal(text, whole, *precision, *scale as u8);
                } else {
                    self.faults.numbers.push(None);
                }
                return;
            }
            _ => return,
        };
        self.faults
            .conversions
            .push(if is_plain { fault } else { None });
    }
}

/// What a parser of the fast path makes of a token.
fn parse<T>(
    token: &[u8],
    with: impl Fn(super::text::Cursor) -> Option<(T, super::text::Cursor)>,
) -> Option<T> {
    let mut text = Text::default();
    text.set::<Scalar>(token);
    with(text.start())
        .filter(|(_, end)| end.left() == 0)
        .map(|(value, _)| value)
}

fn date_fault(text: &[u8]) -> Option<String> {
    if times::is_time(text) && text.len() == 10 {
        return Some(BAD_YEAR.to_owned());
    }
    let text = std::str::from_utf8(text).ok()?;
    Some(format!(
        "Failed to parse string: '{text}' as a scalar of type date32[day]"
    ))
}

fn time_fault(text: &[u8], may_have_zone: bool) -> Option<String> {
    if times::is_time(text) && (may_have_zone || times::parse_time(text, true).is_none()) {
        return if may_have_zone || !times::has_zone(text) {
            Some(BAD_YEAR.to_owned())
        } else {
            None
        };
    }
    // With a zone, or what may be one, and with a fraction the words depend on more.
    let clock = text.iter().position(|byte| matches!(byte, b'T' | b' '));
    let is_simple = !text.contains(&b'.')
        && clock.is_none_or(|at| {
            !text[at..]
                .iter()
                .any(|byte| matches!(byte, b'Z' | b'+' | b'-'))
        });
    let text = std::str::from_utf8(text).ok().filter(|_| is_simple)?;
    Some(format!(
        "Failed to parse string: '{text}' as a scalar of type timestamp[us]"
    ))
}

/// What the parser calls the values of a column.
fn kind_of(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Boolean => "boolean",
        DataType::Utf8 | DataType::Binary | DataType::Date32 | DataType::Timestamp(..) => "string",
        DataType::Decimal128(..) => "number_or_string",
        DataType::List(_) => "array",
        DataType::Struct(_) | DataType::Map(..) => "object",
        _ => "number",
    }
}
