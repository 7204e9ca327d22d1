//! Values that are no rows, as columns: where each stood, and why. Few reasons are met often.

use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, Fields};

use super::column::Bytes;
use super::keys::{ODD, hash};
use super::reason::{Common, Frame, Reason};

/// The values of a call that are no rows, ascending.
#[derive(Default)]
pub struct BadValues {
    indices: Vec<i64>,
    codes: Vec<i32>, // of their reasons; NONE: it is not known
    reasons: Reasons,
    known: Known,
}

const NONE: i32 = -1;
/// A reason is told to so many letters.
const REASON_MAX: usize = 200;
/// In so many places of the table a reason is looked for.
const PLACES: usize = 32;

/// Codes of common reasons, by what they are: without a look at their words.
#[derive(Default)]
struct Known {
    places: Vec<(u64, i32)>, // by the identity of a reason; none, or 1 << KNOWN_BITS
}

/// By so many bits of its identity, spread, a common reason has its place.
const KNOWN_BITS: u32 = 8;

impl Known {
    /// The code of a common reason; of one that is not known, that which is found.
    fn code_of(&mut self, common: Common, find: impl FnOnce() -> i32) -> i32 {
        if self.places.is_empty() {
            self.places = vec![(0, NONE); 1 << KNOWN_BITS];
        }
        let id = common.id();
        let spread = id.wrapping_mul(ODD);
        let place = &mut self.places[(spread >> (u64::BITS - KNOWN_BITS)) as usize];
        if place.0 == id {
            return place.1;
        }
        *place = (id, find());
        place.1
    }
}

/// Reasons by number; nearly all differ.
#[derive(Default)]
struct Reasons {
    entries: Vec<Entry>,
    between: Vec<u8>,          // what is between the words of all of them
    table: Vec<Option<Entry>>, // by the hash of what is between; at most a quarter full
}

/// A reason: all that is compared is in one place of memory, as what is around is soon forgotten.
#[derive(Clone, Copy)]
struct Entry {
    number: i32,
    start: u32, // of what is between its words
    size: u16,
    frame: Frame,
}

impl Reasons {
    fn between(&self, entry: Entry) -> &[u8] {
        let start = entry.start as usize;
        &self.between[start..start + entry.size as usize]
    }

    /// The number of a reason, which is new or known; new as well where others that hash alike have
    /// taken all its places.
    fn number_of(&mut self, frame: Frame, between: &[u8]) -> i32 {
        let between = shortened(between);
        if 4 * self.entries.len() >= self.table.len() {
            self.grow();
        }
        let place = self.place_of(frame, between);
        if let Some(place) = place
            && let Some(entry) = self.table[place]
        {
            return entry.number;
        }
        let entry = self.push(frame, between);
        if let Some(place) = place {
            self.table[place] = Some(entry);
        }
        entry.number
    }

    fn push(&mut self, frame: Frame, between: &[u8]) -> Entry {
        let entry = Entry {
            number: self.entries.len() as i32,
            start: u32::try_from(self.between.len()).expect("4 GB of reasons"),
            size: between.len() as u16, // it is shortened
            frame,
        };
        self.entries.push(entry);
        self.between.extend_from_slice(between);
        entry
    }

    /// Where a reason has its number, or would have it; None: all its places have those of others.
    ///
    /// Reasons quote what producers wrote, who may make many that hash alike: these become reasons
    /// of their own, which costs room, not a search among all of them.
    fn place_of(&self, frame: Frame, between: &[u8]) -> Option<usize> {
        let first = hash(between);
        let mut places = (0..PLACES).map(|more| first.wrapping_add(more) & (self.table.len() - 1));
        let is_its = |place: &usize| match self.table[*place] {
            Some(entry) => entry.frame == frame && self.between(entry) == between,
            None => true,
        };
        places.find(is_its)
    }

    #[cold]
    fn grow(&mut self) {
        self.table = vec![None; (8 * self.entries.len()).next_power_of_two().max(64)];
        for entry in &self.entries {
            if let Some(place) = self.place_of(entry.frame, self.between(*entry)) {
                self.table[place] = Some(*entry);
            }
        }
    }

    /// The texts by number.
    fn texts(&self) -> Bytes {
        let mut texts = Bytes::default();
        for entry in &self.entries {
            let start = texts.data.len();
            entry.frame.push(self.between(*entry), &mut texts.data);
            let size = shortened(&texts.data[start..]).len();
            texts.data.truncate(start + size);
            texts.end_value();
        }
        assert!(texts.data.len() <= i32::MAX as usize, "2 GB of reasons");
        texts
    }

    /// As Arrow has them: a text for each of some codes.
    fn by(&self, codes: Vec<i32>) -> ArrayData {
        let build = |kind: DataType, len| ArrayData::builder(kind).len(len);
        let (starts, data) = self.texts().take();
        simdutf8::basic::from_utf8(&data).expect("a reason is no text");
        let texts = build(DataType::Utf8, self.entries.len()).add_buffer(starts);
        let texts = texts.add_buffer(data);
        let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let coded = build(dictionary, codes.len()).add_buffer(Buffer::from_vec(codes));
        // SAFETY: a code is the number of a reason; all are text, and each ends where a letter ends.
        unsafe {
            coded
                .add_child_data(texts.build_unchecked())
                .build_unchecked()
        }
    }
}

impl BadValues {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// The values by their numbers, and why each is bad; None: `JsonDecoder` knows, and it may be a
    /// row after all.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Option<String>)> {
        let pairs = self.indices.iter().zip(&self.codes);
        let texts = self.reasons.texts();
        pairs.map(move |(index, code)| {
            let text = |number| String::from_utf8_lossy(texts.get(number)).into_owned();
            (
                *index as usize,
                (*code != NONE).then(|| text(*code as usize)),
            )
        })
    }

    /// Append a value, and why it is bad, of records of these columns.
    pub(super) fn push(&mut self, index: usize, reason: Reason<'_>, fields: &Fields) {
        let code = match reason {
            Reason::Common(common) => self.known.code_of(common, || {
                let words = common.words(fields);
                self.reasons.number_of(Frame::None, words.as_bytes())
            }),
            Reason::Words(frame, between) => self.reasons.number_of(frame, between),
            Reason::Unknown => NONE,
        };
        self.indices.push(index as i64);
        self.codes.push(code);
    }

    /// What is said of the values of a call, of which there are `count`.
    pub fn into_verdicts(self, count: usize) -> Verdicts {
        let good = integers(self.good_of(count));
        let is_known = |code: &i32| *code != NONE;
        let pairs = || self.indices.iter().zip(&self.codes);
        if self.codes.iter().all(is_known) {
            return Verdicts {
                good,
                bad: integers(self.indices),
                reasons: self.reasons.by(self.codes),
                asked: None,
            };
        }
        let asked = pairs().filter(|(_, code)| !is_known(code));
        let asked = asked.map(|(index, _)| *index).collect();
        let (bad, codes) = pairs().filter(|(_, code)| is_known(code)).unzip();
        Verdicts {
            good,
            bad: integers(bad),
            reasons: self.reasons.by(codes),
            asked: Some(integers(asked)),
        }
    }

    /// 0 to `count` without the values that are here.
    fn good_of(&self, count: usize) -> Vec<i64> {
        let mut good = Vec::with_capacity(count - self.len());
        let mut next = 0;
        for bad in &self.indices {
            good.extend(next..*bad);
            next = bad + 1;
        }
        good.extend(next..count as i64);
        good
    }
}

/// A reason, which is text in UTF-8, as it is told.
fn shortened(reason: &[u8]) -> &[u8] {
    if reason.len() <= REASON_MAX {
        return reason;
    }
    if reason[..REASON_MAX].is_ascii() {
        return &reason[..REASON_MAX];
    }
    let is_start = |(_, byte): &(usize, &u8)| **byte & 0xc0 != 0x80;
    let mut letters = reason.iter().enumerate().filter(is_start);
    let end = letters.nth(REASON_MAX).map_or(reason.len(), |(at, _)| at);
    &reason[..end]
}

/// The values of a call, by their numbers, ascending.
pub struct Verdicts {
    /// Those that are rows.
    pub good: ArrayData,
    /// Those that are none.
    pub bad: ArrayData,
    /// Why each of these is none: a dictionary.
    pub reasons: ArrayData,
    /// Those that `JsonDecoder` is to be asked of, which knows why they are none, or that they are;
    /// None: there are none.
    pub asked: Option<ArrayData>,
}

fn integers(values: Vec<i64>) -> ArrayData {
    let builder = ArrayData::builder(DataType::Int64).len(values.len());
    // SAFETY: the buffer has as many integers.
    unsafe {
        builder
            .add_buffer(Buffer::from_vec(values))
            .build_unchecked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts that begin at the same place of every table here.
    fn alike(count: usize) -> Vec<String> {
        let texts = (0..).map(|number| format!("Column(/a{number}) was specified twice"));
        let is_alike = |text: &String| hash(text.as_bytes()) % 1024 == 7;
        texts.filter(is_alike).take(count).collect()
    }

    #[test]
    fn a_number_is_that_of_its_text_whatever_hashes_alike() {
        let texts = alike(2 * PLACES);
        let mut reasons = Reasons::default();
        for text in texts.iter().chain(&texts) {
            let number = reasons.number_of(Frame::None, text.as_bytes());
            let entry = reasons.entries[number as usize];
            assert_eq!(reasons.between(entry), text.as_bytes());
        }
        assert!(reasons.table.len() <= 1024);
    }

    #[test]
    fn texts_that_hash_alike_are_not_compared_with_all_others() {
        let texts = alike(2 * PLACES);
        let mut reasons = Reasons::default();
        let mut numbers_of = |texts: &[String]| -> Vec<i32> {
            texts
                .iter()
                .map(|text| reasons.number_of(Frame::None, text.as_bytes()))
                .collect()
        };
        let (first, again) = (numbers_of(&texts), numbers_of(&texts));
        assert_eq!(first[..PLACES], again[..PLACES]);
        assert!(
            first[PLACES..]
                .iter()
                .zip(&again[PLACES..])
                .all(|(a, b)| a != b)
        );
    }
}
