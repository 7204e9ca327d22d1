//! Why a record is no row, in the words of `JsonDecoder`.
//!
//! Only records that were refused come here. The reasons are those of the parser that
//! `JsonDecoder` uses (RapidJSON, below Arrow), in its order: what is wrong with the text or with the
//! kind of a value, wherever it stands first; then numbers that do not fit; then nulls; then what
//! a conversion refuses. Whatever is not told here for certain has no reason, and `JsonDecoder` is asked.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields};

use super::scan::{Scalar, find_special};
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
const NO_COMMA: &str = "Missing a comma or '}' after an object member.";
const REASON_MAX: usize = 200;

/// Says why records are no rows of one schema.
pub struct Judge {
    fast: Vec<Arc<Field>>,
    slow: Vec<Arc<Field>>, // those with maps, which `JsonDecoder` parses after the others
    has_decimal: bool,
    paper: Paper,
}

/// What can be said of a refused record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// [`Judge::reason`] says why it is no row.
    Because,
    /// So it is if the rest of the record, from a byte on, is in order. The field's value, which
    /// ends there, is what is wrong.
    IfRest {
        /// How many bytes are behind.
        at: usize,
        /// The number of the field.
        field: usize,
    },
    /// `JsonDecoder` is to be asked, for which it may be a row.
    Unsure,
}

/// What is written on while a record is read, kept so that a bad one costs no allocation.
#[derive(Default)]
struct Paper {
    reason: String,
    path: String,
    seen: Vec<bool>, // of the fields of the objects that are open, the inner ones last
}

/// Why parsing ends before the end.
enum Stop {
    /// It is on the paper.
    Because,
    Unsure,
}

type Step<T> = Result<T, Stop>;

/// What is wrong with values of a text that can be parsed. A reason may be unknown.
#[derive(Default)]
struct Faults {
    numbers: Kind,
    is_null: bool,
    conversions: Kind,
}

/// Faults of one kind.
#[derive(Default)]
struct Kind {
    count: usize,
    reason: Option<String>, // of the last one
}

impl Judge {
    /// A judge for tables of these columns.
    pub fn new(fields: &Fields) -> Self {
        let (slow, fast) = fields.iter().cloned().partition(|field: &Arc<Field>| {
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
            paper: Paper::default(),
        }
    }

    /// Where to say which fields the part of a record that is `done` has.
    pub fn seen(&mut self) -> &mut Vec<bool> {
        &mut self.paper.seen
    }

    /// The reason that was found last.
    pub fn reason(&self) -> &str {
        self.paper.shortened()
    }

    /// Judge a refused record, of which the first `done` bytes are known to be in order: they end
    /// behind a value of the record's own object. The fields that they have are in `seen`. Nothing:
    /// it is read whole.
    pub fn judge(&mut self, record: Option<&[u8]>, done: Option<usize>) -> Verdict {
        let record = record.unwrap_or_default();
        let text = trim(record);
        if text.is_empty() {
            return self.paper.say(EMPTY);
        }
        if !text.starts_with(b"{") || !text.ends_with(b"}") {
            return self.paper.say(NOT_AN_OBJECT);
        }
        if self.has_decimal
            && text
                .windows(2)
                .any(|pair| matches!(pair, b"e-" | b"E-" | b"\\u"))
        {
            return Verdict::Unsure; // `JsonDecoder` looks at such texts before anything else
        }
        if done.unwrap_or(0) == 0 && simdutf8::basic::from_utf8(text).is_err() {
            return self.paper.say(NOT_UTF8);
        }
        if self.slow.is_empty()
            && let Some(done) = done
        {
            let lead = text.as_ptr() as usize - record.as_ptr() as usize;
            return self.judge_rest(text, done.saturating_sub(lead), lead);
        }
        let judged = if self.slow.is_empty() {
            Reader::read(text, &self.fast, false, &mut self.paper)
        } else {
            self.read_with_maps(text)
        };
        self.paper.sum_up(judged)
    }

    /// As `judge`; `lead` is how much white space was before the text.
    fn judge_rest(&mut self, text: &[u8], done: usize, lead: usize) -> Verdict {
        let mut reader = Reader::new(text, done, false, &mut self.paper);
        reader.is_patient = false;
        let judged = if done > 0 {
            reader.rest(&self.fast)
        } else {
            reader.whole(&self.fast)
        };
        let (faults, at, pending) = (reader.faults, reader.at, reader.pending);
        let said = self.paper.sum_up(judged.map(|()| faults));
        match (said, pending) {
            (Verdict::Because, Some(field)) => Verdict::IfRest {
                at: at + lead,
                field,
            },
            (said, _) => said,
        }
    }

    /// Python's parser comes first where there are maps, with words of its own: it is asked for them.
    fn read_with_maps(&mut self, text: &[u8]) -> Step<Faults> {
        let paper = &mut self.paper;
        Reader::read(text, &[], false, paper).map_err(|_| Stop::Unsure)?;
        Reader::read(text, &self.slow, true, paper)?;
        let fast = Reader::read(text, &self.fast, false, paper)?;
        if fast.numbers.count > 0 {
            return Ok(fast);
        }
        let slow = Reader::read(text, &self.slow, false, paper)?;
        Ok(Faults {
            numbers: slow.numbers,
            is_null: fast.is_null || slow.is_null,
            conversions: Kind {
                count: fast.conversions.count + slow.conversions.count,
                reason: fast.conversions.reason.or(slow.conversions.reason),
            },
        })
    }
}

impl Paper {
    fn say(&mut self, reason: &str) -> Verdict {
        self.reason.clear();
        self.reason.push_str(reason);
        Verdict::Because
    }

    fn sum_up(&mut self, judged: Step<Faults>) -> Verdict {
        match judged {
            Ok(faults) => match faults.first() {
                Some(reason) => self.say(&reason),
                None => Verdict::Unsure,
            },
            Err(Stop::Because) => Verdict::Because,
            Err(Stop::Unsure) => Verdict::Unsure,
        }
    }

    fn shortened(&self) -> &str {
        let end = self.reason.char_indices().nth(REASON_MAX);
        &self.reason[..end.map_or(self.reason.len(), |(at, _)| at)]
    }
}

impl Kind {
    fn add(&mut self, reason: Option<String>) {
        self.count += 1;
        self.reason = reason;
    }

    /// The reason of the only one.
    fn single(self) -> Option<Cow<'static, str>> {
        self.reason.filter(|_| self.count == 1).map(Cow::Owned)
    }
}

impl Faults {
    fn any(&self) -> bool {
        self.is_null || self.numbers.count > 0 || self.conversions.count > 0
    }

    /// The one that `JsonDecoder` meets first, where it is certain which that is.
    fn first(self) -> Option<Cow<'static, str>> {
        if self.numbers.count > 0 {
            return self.numbers.single();
        }
        if self.is_null {
            return Some(Cow::Borrowed(NULL));
        }
        self.conversions.single()
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

/// The field of a name; `next` is the one that is expected.
fn find_field(fields: &[Arc<Field>], name: &[u8], next: usize) -> Option<usize> {
    let is_it = |field: &Arc<Field>| field.name().as_bytes() == name;
    if fields.get(next).is_some_and(is_it) {
        return Some(next);
    }
    fields.iter().position(is_it)
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

/// Reads one text, step by step as RapidJSON does.
struct Reader<'a, 'p> {
    text: &'a [u8],
    at: usize,
    faults: Faults,
    /// Only whether the values of maps are objects with different keys is asked, as Python does.
    is_about_maps: bool,
    /// Whether reading goes on behind a value of the record's own object that has a fault.
    is_patient: bool,
    /// The field that has it, where reading did not go on.
    pending: Option<usize>,
    paper: &'p mut Paper,
}

/// What is known of the place of a value: its column's type; None: no column wants it.
type Wanted<'t> = Option<&'t DataType>;

impl<'a, 'p> Reader<'a, 'p> {
    fn read(
        text: &'a [u8],
        fields: &[Arc<Field>],
        is_about_maps: bool,
        paper: &'p mut Paper,
    ) -> Step<Faults> {
        let mut reader = Reader::new(text, 0, is_about_maps, paper);
        reader.whole(fields)?;
        Ok(reader.faults)
    }

    fn new(text: &'a [u8], at: usize, is_about_maps: bool, paper: &'p mut Paper) -> Self {
        paper.path.clear();
        Reader {
            text,
            at,
            faults: Faults::default(),
            is_about_maps,
            is_patient: true,
            pending: None,
            paper,
        }
    }

    fn whole(&mut self, fields: &[Arc<Field>]) -> Step<()> {
        self.paper.seen.clear();
        self.object(Some(fields), 0)?;
        self.end()
    }

    /// What stands behind a value of the record's own object.
    fn rest(&mut self, fields: &[Arc<Field>]) -> Step<()> {
        if self.ends(b'}', NO_COMMA)? {
            self.end_object(fields, 0);
        } else {
            self.members(fields, 0, 0)?;
        }
        self.end()
    }

    fn end(&self) -> Step<()> {
        if self.at < self.text.len() && self.pending.is_none() {
            return Err(Stop::Unsure); // another document, or something else
        }
        Ok(())
    }

    #[cold]
    fn stop<T>(&mut self, words: &[&str]) -> Step<T> {
        self.paper.reason.clear();
        self.paper.reason.extend(words.iter().copied());
        Err(Stop::Because)
    }

    /// Stop because of the column at `path`.
    #[cold]
    fn stop_at<T>(&mut self, what: &str, from: &str, to: &str) -> Step<T> {
        let path = std::mem::take(&mut self.paper.path);
        let and = if to.is_empty() { "" } else { " to " };
        let stopped = self.stop(&["Column(", &path, what, from, and, to]);
        self.paper.path = path; // its memory is used again
        stopped
    }

    #[inline(always)]
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
    fn object(&mut self, fields: Option<&[Arc<Field>]>, depth: usize) -> Step<()> {
        self.at += 1;
        let fields = fields.unwrap_or_default();
        let outer = self.paper.seen.len();
        self.paper.seen.resize(outer + fields.len(), false);
        self.space();
        if self.peek() != b'}' {
            return self.members(fields, outer, depth);
        }
        self.at += 1;
        self.end_object(fields, outer);
        Ok(())
    }

    /// The members of an object from a key on, and its end. `outer`: where its flags begin.
    fn members(&mut self, fields: &[Arc<Field>], outer: usize, depth: usize) -> Step<()> {
        let mut next = 0; // the field that is expected
        loop {
            let key = self.key()?;
            let length = self.paper.path.len();
            let found = find_field(fields, &key, next);
            let mut wanted = None;
            if let Some(number) = found {
                next = number + 1;
                let field = &fields[number];
                self.paper.path.push('/');
                self.paper.path.push_str(field.name());
                let seen = &mut self.paper.seen[outer + number];
                if std::mem::replace(seen, true) && !self.is_about_maps {
                    return self.stop_at(") was specified twice", "", "");
                }
                wanted = Some(field.data_type());
                self.colon()?;
                if !field.is_nullable() && self.starts(b"null") {
                    self.faults.is_null = true;
                }
            } else {
                self.colon()?;
            }
            self.value(wanted, depth)?;
            self.paper.path.truncate(length);
            if !self.is_patient && outer == 0 && depth == 0 && self.faults.any() {
                self.pending = found;
                return Ok(());
            }
            if self.ends(b'}', NO_COMMA)? {
                break;
            }
        }
        self.end_object(fields, outer);
        Ok(())
    }

    fn end_object(&mut self, fields: &[Arc<Field>], outer: usize) {
        let mut all = fields.iter().zip(&self.paper.seen[outer..]);
        self.faults.is_null |= all.any(|(field, seen)| !seen && !field.is_nullable());
        self.paper.seen.truncate(outer);
    }

    fn key(&mut self) -> Step<Cow<'a, [u8]>> {
        if self.peek() != b'"' {
            return self.stop(&["Missing a name for object member."]);
        }
        self.string()
    }

    fn colon(&mut self) -> Step<()> {
        self.space();
        if self.peek() != b':' {
            return self.stop(&["Missing a colon after a name of object member."]);
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
            return self.stop(&[missing]);
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
            return self.stop(&[NO_MAP]);
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
                let text = self.string()?;
                self.expect(wanted, "string")?;
                self.judge_text(wanted, text, start);
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
            return self.stop(&["Invalid value."]);
        }
        self.at += word.len();
        Ok(())
    }

    /// Stop unless a value of this kind may stand in its column.
    fn expect(&mut self, wanted: Wanted<'_>, kind: &str) -> Step<()> {
        let Some(wanted) = wanted else { return Ok(()) };
        let expected = kind_of(wanted);
        if expected == kind || expected == "number_or_string" && matches!(kind, "number" | "string")
        {
            return Ok(());
        }
        if self.is_about_maps {
            return Ok(());
        }
        self.stop_at(") changed from ", expected, kind)
    }

    fn array(&mut self, wanted: Wanted<'_>, depth: usize) -> Step<()> {
        self.expect(wanted, "array")?;
        let element = match wanted {
            Some(DataType::List(element)) => Some(element.data_type()),
            _ => None,
        };
        let length = self.paper.path.len();
        self.paper.path.push_str("/[]");
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
        self.paper.path.truncate(length);
        Ok(())
    }

    fn inner_object(&mut self, wanted: Wanted<'_>, depth: usize) -> Step<()> {
        match wanted {
            Some(DataType::Map(entry, _)) => self.map(entry, depth + 1),
            Some(DataType::Struct(fields)) => self.object(Some(fields), depth + 1),
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
        let length = self.paper.path.len();
        self.paper.path.push_str("/[]/value");
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
        self.paper.path.truncate(length);
        keys.sort_unstable();
        if self.is_about_maps && keys.windows(2).any(|two| two[0] == two[1]) {
            return self.stop(&[MAP_TWICE]);
        }
        Ok(())
    }

    /// A text without its escapes; borrowed where it had none.
    fn string(&mut self) -> Step<Cow<'a, [u8]>> {
        self.at += 1;
        let start = self.at;
        self.plain();
        if self.peek() == b'"' {
            self.at += 1;
            return Ok(Cow::Borrowed(&self.text[start..self.at - 1]));
        }
        let mut text = self.text[start..self.at].to_vec();
        loop {
            match self.peek() {
                b'"' => {
                    self.at += 1;
                    return Ok(Cow::Owned(text));
                }
                b'\\' => self.escape(&mut text)?,
                0 => return self.stop(&["Missing a closing quotation mark in string."]),
                1..0x20 => return self.stop(&["Invalid encoding in string."]),
                _ => {
                    let start = self.at;
                    self.plain();
                    text.extend_from_slice(&self.text[start..self.at]);
                }
            }
        }
    }

    /// Go to the next quote, backslash or control character, or to the end.
    fn plain(&mut self) {
        while let Some(word) = self.text[self.at..].first_chunk::<8>() {
            let special = find_special(u64::from_le_bytes(*word));
            if special != 0 {
                self.at += special.trailing_zeros() as usize / 8;
                return;
            }
            self.at += 8;
        }
        while self.at < self.text.len() && !matches!(self.peek(), b'"' | b'\\' | 0..0x20) {
            self.at += 1;
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
            _ => return self.stop(&["Invalid escape character in string."]),
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
            return self.stop(&[HALF]);
        }
        self.at += 2;
        let low = self.unit()?;
        if !(0xdc00..0xe000).contains(&low) {
            return self.stop(&[HALF]);
        }
        char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)).ok_or(Stop::Unsure)
    }

    fn unit(&mut self) -> Step<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            let Some(digit) = (self.peek() as char).to_digit(16) else {
                return self.stop(&["Incorrect hex digit after \\u escape in string."]);
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
            _ => return self.stop(&["Invalid value."]),
        }
        let mut behind = 0;
        if self.peek() == b'.' {
            self.at += 1;
            behind = self.digits();
            if behind == 0 {
                return self.stop(&["Miss fraction part in number."]);
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
            return self.stop(&["Miss exponent in number."]);
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
            self.stop(&[TOO_BIG])
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
                        .add(is_known.then(|| BAD_FLOAT.to_owned()));
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
            self.faults.numbers.add(Some(reason));
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
            self.faults.numbers.add(None);
            return;
        }
        // With more digits it is the scale that fails, with fewer the precision.
        if parse(whole, |at| numbers::parse_decimal(at, 38, scale)).is_some() {
            let reason = format!("Decimal value does not fit in precision {precision}");
            self.faults.conversions.add(Some(reason));
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
            .add(is_certain.then(|| LOST_DIGITS.to_owned()));
    }

    /// Note what keeps a text from being a value of its column.
    fn judge_text(&mut self, wanted: Wanted<'_>, text: Cow<'_, [u8]>, start: usize) {
        let is_plain = matches!(text, Cow::Borrowed(_));
        let text = &text[..];
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
                    self.faults.numbers.add(None);
                }
                return;
            }
            _ => return,
        };
        self.faults
            .conversions
            .add(if is_plain { fault } else { None });
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
