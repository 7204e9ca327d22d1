//! Why a record is no row whose text or whose kinds of values are not in order, in the words of
//! `JsonDecoder`.
//!
//! Only records that were refused come here. The reasons are those of the parser that
//! `JsonDecoder` uses (RapidJSON, below Arrow), in its order: what is wrong with the text or with the
//! kind of a value, wherever it stands first; then the faults of values (`super::faults`). Whatever
//! is not told here for certain has no reason, and `JsonDecoder` is asked. Where a column is a MAP,
//! Python's parser comes first, and what it says of a text is said here in its words.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields};

use super::faults::{Faults, fits};
use super::kinds::{Kind, holds_map, kind_of};
use super::reason::{Frame, Reason, write_other_kind, write_twice};
use super::record::{Context, Object};
use super::scan::find_special;
use super::skip::DEPTH_MAX;

const EMPTY: &str = "empty value";
const NOT_AN_OBJECT: &str = "not a JSON object";
const NO_MAP: &str = "the value of a MAP column is not an object";
const MAP_TWICE: &str = "a key appears twice in a MAP";
const TOO_BIG: &str = "Number too big to be stored in double.";

/// What is wrong with a text, in the words of the parser, and in those of Python's, which adds where.
type Broken = (&'static str, &'static str);

const NO_COMMA: Broken = (
    "Missing a comma or '}' after an object member.",
    "Expecting ',' delimiter",
);
const NO_COMMA_IN_ARRAY: Broken = (
    "Missing a comma or ']' after an array element.",
    "Expecting ',' delimiter",
);
const NO_COLON: Broken = (
    "Missing a colon after a name of object member.",
    "Expecting ':' delimiter",
);
const NO_NAME: Broken = (
    "Missing a name for object member.",
    "Expecting property name enclosed in double quotes",
);
const NO_VALUE: Broken = ("Invalid value.", "Expecting value");

/// Says why records are no rows of one schema.
pub struct Judge {
    all: Columns,
    fast: Columns,
    slow: Columns, // those with maps, which `JsonDecoder` parses after the others
    none: Columns,
    has_decimal: bool,
    paper: Paper,
}

/// Some columns of a table, and their numbers in it.
#[derive(Default)]
struct Columns {
    fields: Vec<Arc<Field>>,
    numbers: Vec<usize>,
}

/// What is written on while a record is read, kept so that a bad one costs no allocation.
#[derive(Default)]
struct Paper {
    reason: String,
    path: String,
    seen: Vec<bool>, // of the fields of the objects that are open, the inner ones last
}

/// Why reading ends before the end.
enum Stop {
    /// For this, in the same words each time.
    Fixed(&'static str),
    /// For what is on the paper.
    Words,
    Unknown,
}

type Step<T> = Result<T, Stop>;

impl Judge {
    /// A judge for tables of these columns.
    pub fn new(fields: &Fields) -> Self {
        let some = |is_wanted: &dyn Fn(&Field) -> bool| {
            let all = fields.iter().cloned().enumerate();
            let (numbers, fields) = all.filter(|(_, field)| is_wanted(field)).unzip();
            Columns { fields, numbers }
        };
        Judge {
            all: some(&|_| true),
            fast: some(&|field| !holds_map(field.data_type())),
            slow: some(&|field| holds_map(field.data_type())),
            none: Columns::default(),
            has_decimal: fields.iter().any(|field| holds_decimal(field.data_type())),
            paper: Paper::default(),
        }
    }

    /// Say why a record is no row: what was told of it; or what is found from where parsing it into
    /// an object has come to, as the context says.
    pub fn judge<'a>(
        &'a mut self,
        record: &[u8],
        object: &Object,
        context: &'a mut Context,
    ) -> Reason<'a> {
        let text = trim(record);
        if text.is_empty() {
            return Reason::fixed(EMPTY);
        }
        if !text.starts_with(b"{") || !text.ends_with(b"}") {
            return Reason::fixed(NOT_AN_OBJECT);
        }
        if self.has_decimal && may_have_exponent(text) {
            return Reason::Unknown; // `JsonDecoder` looks at such texts before anything else
        }
        if let Some(told) = context.told {
            return Reason::Common(told);
        }
        let lead = text.as_ptr() as usize - record.as_ptr() as usize;
        let start = Start::new(object, context, lead);
        let read = if self.slow.fields.is_empty() {
            let faults = &mut context.faults;
            Reader::new(text, &self.all, Aim::Columns, faults, &mut self.paper).read(start)
        } else {
            self.read_with_maps(text, start, &mut context.faults)
        };
        match read {
            Ok(()) => context.faults.first(),
            Err(Stop::Fixed(words)) => Reason::fixed(words),
            Err(Stop::Words) => Reason::Words(Frame::None, self.paper.reason.as_bytes()),
            Err(Stop::Unknown) => Reason::Unknown,
        }
    }

    /// Python's parser comes first where there are maps; then it looks at the maps, and only then are
    /// columns parsed, those without maps first.
    fn read_with_maps(&mut self, text: &[u8], start: Start<'_>, faults: &mut Faults) -> Step<()> {
        let mut read = |columns, aim, faults: &mut Faults| {
            Reader::new(text, columns, aim, faults, &mut self.paper).read(start)
        };
        read(&self.none, Aim::Text, faults)?;
        read(&self.slow, Aim::Maps, faults)?;
        read(&self.fast, Aim::Columns, faults)?;
        if faults.is_any_number_before_maps() {
            return Ok(());
        }
        read(&self.slow, Aim::Columns, faults)
    }
}

/// Where reading begins: what is before is in order.
#[derive(Clone, Copy)]
struct Start<'a> {
    place: Place,
    object: &'a Object,
    record: u64, // its number in the object
}

#[derive(Clone, Copy)]
enum Place {
    /// At the first byte.
    First,
    /// At the value of a field of the record's own object.
    Value(usize, usize),
    /// Behind a value of the record's own object.
    Behind(usize),
}

impl<'a> Start<'a> {
    /// Where parsing into an object stopped; `lead`: how much white space was before the text.
    fn new(object: &'a Object, context: &Context, lead: usize) -> Self {
        let place = match context.stuck {
            Some((field, at)) => Place::Value(field, at - lead),
            None if context.done > 0 => Place::Behind(context.done - lead),
            None => Place::First,
        };
        let record = context.record();
        Start {
            place,
            object,
            record,
        }
    }

    /// Whether a field of the record's own object is before, or begins here.
    fn has(&self, field: usize) -> bool {
        matches!(self.place, Place::Value(here, _) if here == field)
            || self.object.has_seen(field, self.record)
    }
}

/// What is asked of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aim {
    /// What Python's parser finds wrong with it.
    Text,
    /// Whether the values of maps are objects with different keys.
    Maps,
    /// What keeps it from being a row.
    Columns,
}

fn holds_decimal(data_type: &DataType) -> bool {
    match data_type {
        DataType::Decimal128(..) => true,
        DataType::List(inner) | DataType::Map(inner, _) => holds_decimal(inner.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_decimal(field.data_type())),
        _ => false,
    }
}

/// Whether a text may write a negative exponent: as it is, or by escapes.
fn may_have_exponent(text: &[u8]) -> bool {
    let is_one = |(first, second): (&u8, &u8)| {
        (first | 0x20 == b'e') & (*second == b'-') | (*first == b'\\') & (*second == b'u')
    };
    // A chunk at a time without a branch: many bytes at once.
    let (firsts, first_rest) = text[..text.len().saturating_sub(1)].as_chunks::<32>();
    let (seconds, second_rest) = text.get(1..).unwrap_or_default().as_chunks::<32>();
    let has_one = |firsts: &[u8], seconds: &[u8]| {
        let pairs = firsts.iter().zip(seconds);
        pairs.fold(false, |found, pair| found | is_one(pair))
    };
    firsts.iter().zip(seconds).any(|(a, b)| has_one(a, b)) || has_one(first_rest, second_rest)
}

/// The field of a name; `next` is the one that is expected.
fn find_field(fields: &[Arc<Field>], name: &[u8], next: usize) -> Option<usize> {
    let is_it = |field: &Arc<Field>| field.name().as_bytes() == name;
    if fields.get(next).is_some_and(is_it) {
        return Some(next);
    }
    fields.iter().position(is_it)
}

/// Append a number in decimal: `write!` takes as long as all else that is done with a record.
fn push_number(words: &mut String, number: usize) {
    if number >= 10 {
        push_number(words, number / 10);
    }
    words.push((b'0' + (number % 10) as u8) as char);
}

fn count_letters(text: &[u8]) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
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
    columns: &'p Columns,
    faults: &'p mut Faults,
    aim: Aim,
    paper: &'p mut Paper,
}

/// What is known of the place of a value: its column's type; None: no column wants it.
type Wanted<'t> = Option<&'t DataType>;

impl<'a, 'p> Reader<'a, 'p> {
    fn new(
        text: &'a [u8],
        columns: &'p Columns,
        aim: Aim,
        faults: &'p mut Faults,
        paper: &'p mut Paper,
    ) -> Self {
        paper.path.clear();
        Reader {
            text,
            at: 0,
            columns,
            faults,
            aim,
            paper,
        }
    }

    fn read(&mut self, start: Start<'_>) -> Step<()> {
        let columns = self.columns;
        self.paper.seen.clear();
        match start.place {
            Place::First => {
                self.object(Some(&columns.fields), 0)?;
                return self.end();
            }
            Place::Value(field, at) => {
                self.at = at;
                self.value_of(field)?;
            }
            Place::Behind(at) => self.at = at,
        }
        let is_last = self.ends(b'}', NO_COMMA)?;
        let seen = columns.numbers.iter().map(|field| start.has(*field));
        self.paper.seen.extend(seen);
        if is_last {
            self.end_object(&columns.fields, 0);
        } else {
            self.members(&columns.fields, 0, 0)?;
        }
        self.end()
    }

    /// The value of a field of the record's own object.
    fn value_of(&mut self, field: usize) -> Step<()> {
        let columns = self.columns;
        let Some(number) = columns.numbers.iter().position(|each| *each == field) else {
            return self.value(None, 0);
        };
        let field = &columns.fields[number];
        self.enter(number, field);
        self.value(Some(field.data_type()), 0)?;
        self.paper.path.clear();
        Ok(())
    }

    fn end(&self) -> Step<()> {
        if self.at < self.text.len() {
            return Err(Stop::Unknown); // another document, or something else
        }
        Ok(())
    }

    /// Note that what follows is of a field.
    fn enter(&mut self, number: usize, field: &Field) {
        if self.paper.path.is_empty() {
            self.faults.column = self.columns.numbers[number];
        }
        self.paper.path.push('/');
        self.paper.path.push_str(field.name());
    }

    #[cold]
    fn stop<T>(&self, words: &'static str) -> Step<T> {
        self.stop_for(Stop::Fixed(words))
    }

    fn stop_for<T>(&self, stop: Stop) -> Step<T> {
        if self.aim == Aim::Text {
            return Err(Stop::Unknown); // Python's parser has other words, or takes it
        }
        Err(stop)
    }

    /// Stop because the text is not in order here.
    #[cold]
    fn broken<T>(&mut self, broken: Broken) -> Step<T> {
        if self.aim != Aim::Text {
            return self.stop(broken.0);
        }
        // From Python 3.13 on a comma before the end has words of its own.
        if broken == NO_NAME && self.peek() == b'}' || broken == NO_VALUE && self.peek() == b']' {
            return Err(Stop::Unknown);
        }
        let Some(before) = self.text.get(..self.at) else {
            return Err(Stop::Unknown);
        };
        let letters = count_letters(before);
        let (mut newlines, mut column) = (0, letters);
        if before.contains(&b'\n') {
            newlines = before.iter().filter(|byte| **byte == b'\n').count();
            let last = before.iter().rposition(|byte| *byte == b'\n');
            column = count_letters(&before[last.map_or(0, |at| at + 1)..]);
        }
        let words = &mut self.paper.reason;
        words.clear();
        words.push_str(broken.1);
        for (name, number) in [
            (": line ", newlines + 1),
            (" column ", column + 1),
            (" (char ", letters),
        ] {
            words.push_str(name);
            push_number(words, number);
        }
        words.push(')');
        Err(Stop::Words)
    }

    /// Stop because of the column at `path`.
    #[cold]
    fn stop_at<T>(&mut self, write: impl FnOnce(&mut String, &str)) -> Step<T> {
        let Paper { reason, path, .. } = &mut *self.paper;
        reason.clear();
        write(reason, path);
        self.stop_for(Stop::Words)
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
                self.enter(number, field);
                let seen = &mut self.paper.seen[outer + number];
                if std::mem::replace(seen, true) && self.aim == Aim::Columns {
                    return self.stop_at(write_twice);
                }
                wanted = Some(field.data_type());
                self.colon()?;
                self.note_null_of(field);
            } else {
                self.colon()?;
            }
            self.value(wanted, depth)?;
            self.paper.path.truncate(length);
            if self.ends(b'}', NO_COMMA)? {
                break;
            }
        }
        self.end_object(fields, outer);
        Ok(())
    }

    /// Note that the value here is null, where the field needs one.
    fn note_null_of(&mut self, field: &Field) {
        if self.aim == Aim::Columns && !field.is_nullable() && self.starts(b"null") {
            self.faults.note_null();
        }
    }

    fn end_object(&mut self, fields: &[Arc<Field>], outer: usize) {
        let mut all = fields.iter().zip(&self.paper.seen[outer..]);
        if self.aim == Aim::Columns && all.any(|(field, seen)| !seen && !field.is_nullable()) {
            self.faults.note_null();
        }
        self.paper.seen.truncate(outer);
    }

    fn key(&mut self) -> Step<Cow<'a, [u8]>> {
        if self.peek() != b'"' {
            return self.broken(NO_NAME);
        }
        self.string()
    }

    fn colon(&mut self) -> Step<()> {
        self.space();
        if self.peek() != b':' {
            return self.broken(NO_COLON);
        }
        self.at += 1;
        self.space();
        Ok(())
    }

    /// Whether a list of values ends here, with `last`; false: a comma was passed.
    fn ends(&mut self, last: u8, missing: Broken) -> Step<bool> {
        self.space();
        let found = self.peek();
        if found != last && found != b',' {
            return self.broken(missing);
        }
        self.at += 1;
        if found == b',' {
            self.space();
        }
        Ok(found == last)
    }

    fn value(&mut self, wanted: Wanted<'_>, depth: usize) -> Step<()> {
        if depth > DEPTH_MAX {
            return Err(Stop::Unknown);
        }
        if let (Some(DataType::Map(..)), Aim::Maps) = (wanted, self.aim)
            && !matches!(self.peek(), b'{' | b'n')
        {
            return self.stop(NO_MAP);
        }
        match self.peek() {
            b'n' => self.word(b"null"),
            b't' => self
                .word(b"true")
                .and_then(|()| self.expect(wanted, Kind::Boolean)),
            b'f' => self
                .word(b"false")
                .and_then(|()| self.expect(wanted, Kind::Boolean)),
            b'"' => {
                let start = self.at;
                let text = self.string()?;
                self.expect(wanted, Kind::String)?;
                self.judge_text(wanted, &text, start);
                Ok(())
            }
            b'[' => self.array(wanted, depth),
            b'{' => self.inner_object(wanted, depth),
            _ => {
                let start = self.at;
                self.number()?;
                self.expect(wanted, Kind::Number)?;
                self.judge_number(wanted, start);
                Ok(())
            }
        }
    }

    fn word(&mut self, word: &[u8]) -> Step<()> {
        if !self.starts(word) {
            return self.broken(NO_VALUE);
        }
        self.at += word.len();
        Ok(())
    }

    /// Stop unless a value of this kind may stand in its column.
    fn expect(&mut self, wanted: Wanted<'_>, kind: Kind) -> Step<()> {
        let Some(wanted) = wanted else { return Ok(()) };
        let expected = kind_of(wanted);
        if expected.takes(kind) || self.aim == Aim::Maps {
            return Ok(());
        }
        self.stop_at(|words, path| write_other_kind(words, path, expected, kind))
    }

    fn array(&mut self, wanted: Wanted<'_>, depth: usize) -> Step<()> {
        self.expect(wanted, Kind::Array)?;
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
                if self.ends(b']', NO_COMMA_IN_ARRAY)? {
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
                self.expect(wanted, Kind::Object)?;
                self.object(None, depth + 1)
            }
        }
    }

    fn map(&mut self, entry: &Field, depth: usize) -> Step<()> {
        let DataType::Struct(pair) = entry.data_type() else {
            return Err(Stop::Unknown);
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
                if self.ends(b'}', NO_COMMA)? {
                    break;
                }
            }
        }
        self.paper.path.truncate(length);
        keys.sort_unstable();
        if self.aim == Aim::Maps && keys.windows(2).any(|two| two[0] == two[1]) {
            return self.stop(MAP_TWICE);
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
                0 => return self.stop("Missing a closing quotation mark in string."),
                1..0x20 => return self.stop("Invalid encoding in string."),
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
            _ => return self.stop("Invalid escape character in string."),
        }
        Ok(())
    }

    fn unicode(&mut self) -> Step<char> {
        const HALF: &str = "The surrogate pair in string is invalid.";
        let high = self.unit()?;
        if !(0xd800..0xe000).contains(&high) {
            return char::from_u32(high).ok_or(Stop::Unknown);
        }
        if high >= 0xdc00 || !self.starts(b"\\u") {
            return self.stop(HALF);
        }
        self.at += 2;
        let low = self.unit()?;
        if !(0xdc00..0xe000).contains(&low) {
            return self.stop(HALF);
        }
        char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)).ok_or(Stop::Unknown)
    }

    fn unit(&mut self) -> Step<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            let Some(digit) = (self.peek() as char).to_digit(16) else {
                return self.stop("Incorrect hex digit after \\u escape in string.");
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
        let start = self.at;
        if self.peek() == b'-' {
            self.at += 1;
        }
        let mut count = 1;
        match self.peek() {
            b'N' | b'I' if self.aim == Aim::Text => {
                return self.word_of_python(start);
            }
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
                    Err(Stop::Unknown)
                } else {
                    Ok(())
                };
            }
            _ => {
                self.at = start;
                return self.broken(NO_VALUE);
            }
        }
        let mut behind = 0;
        if self.peek() == b'.' {
            self.at += 1;
            behind = self.digits();
            if behind == 0 {
                return self.stop("Miss fraction part in number.");
            }
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.exponent(count, behind)?;
        }
        Ok(())
    }

    /// A word for a number that Python's parser takes, which are not all that RapidJSON does.
    fn word_of_python(&mut self, start: usize) -> Step<()> {
        self.at = start;
        let words: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];
        match words.into_iter().find(|word| self.starts(word)) {
            Some(word) => self.word(word),
            None => self.broken(NO_VALUE),
        }
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
            return self.stop("Miss exponent in number.");
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
            self.stop(TOO_BIG)
        } else {
            Err(Stop::Unknown)
        }
    }

    /// Note what keeps a number from being one of its column.
    fn judge_number(&mut self, wanted: Wanted<'_>, start: usize) {
        let token = &self.text[start..self.at];
        if let Some(wanted) = wanted
            && self.aim == Aim::Columns
            && !fits(wanted, token)
        {
            self.faults.note_number(wanted, token);
        }
    }

    /// Note what keeps a text from being a value of its column.
    fn judge_text(&mut self, wanted: Wanted<'_>, text: &[u8], start: usize) {
        let token = &self.text[start..self.at];
        if let Some(wanted) = wanted
            && self.aim == Aim::Columns
            && !fits(wanted, token)
        {
            self.faults
                .note_text(wanted, text, text.len() + 2 == token.len());
        }
    }
}
