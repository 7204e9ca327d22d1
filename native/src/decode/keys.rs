//! How keys are found: where they were in the record before.
//!
//! Producers write the same keys in the same order with the same spaces. So an object keeps a
//! script of what it has met: the bytes from one separator to the value, and which field that is.
//! The next key is compared with the next line of the script; only where that fails is it read,
//! looked up and learnt. Nothing is ever found by the script alone: its bytes are compared.

use super::scalars::strings::CopyText;
use super::scan::{Engine, Routine};
use super::text::Cursor;

/// The most keys that are not fields and are learnt.
const UNKNOWN_MAX: usize = 256;
const LONGEST: usize = 160;
/// A key is searched in this many lines ahead and this many first ones before it is read.
const NEAR: usize = 4;
const NOWHERE: u32 = u32::MAX;

/// What a key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The field of that number.
    Field(usize),
    /// A key that is no field, but has been met: see [`Keys::name_of`].
    Learnt(usize),
    /// A key that is no field.
    Unknown,
}

/// The keys of the objects in one place of a schema.
pub struct Keys {
    names: Vec<Box<[u8]>>,
    table: Vec<u32>, // of fields, by the hash of their names
    lines: Vec<Line>,
    line_of: Vec<u32>, // of each field
    unknown: Vec<Box<[u8]>>,
}

struct Line {
    first: [u64; 4], // the text, masked where it is shorter
    mask: [u64; 4],
    text: Vec<u8>,
    target: Target,
}

impl Line {
    fn new(text: &[u8], target: Target) -> Self {
        let mut line = Line {
            first: [0; 4],
            mask: [0; 4],
            text: Vec::new(),
            target,
        };
        line.set_text(text);
        line
    }

    fn set_text(&mut self, text: &[u8]) {
        if self.text == text {
            return; // it stands elsewhere than it did
        }
        self.text = text.into();
        let (mut first, mut mask) = ([0u8; 32], [0u8; 32]);
        let count = text.len().min(32);
        first[..count].copy_from_slice(&text[..count]);
        mask[..count].fill(0xff);
        for word in 0..4 {
            let part = word * 8..word * 8 + 8;
            self.first[word] = u64::from_le_bytes(first[part.clone()].try_into().unwrap());
            self.mask[word] = u64::from_le_bytes(mask[part].try_into().unwrap());
        }
    }

    /// Whether the text stands here. It holds no NUL, so a cursor may pass it where it does.
    #[inline(always)]
    fn is_at(&self, at: Cursor) -> bool {
        let bytes = at.look::<32>();
        let word = |i: usize| u64::from_le_bytes(bytes[i * 8..i * 8 + 8].try_into().unwrap());
        let differs = |i: usize| (word(i) & self.mask[i]) ^ self.first[i];
        if self.text.len() <= 16 {
            return differs(0) | differs(1) == 0;
        }
        if differs(0) | differs(1) | differs(2) | differs(3) != 0 {
            return false;
        }
        self.text.len() <= 32 || self.is_tail_at(at.skip(32))
    }

    #[inline(never)]
    fn is_tail_at(&self, mut at: Cursor) -> bool {
        for byte in &self.text[32..] {
            if at.byte() != *byte {
                return false;
            }
            at = at.skip(1);
        }
        true
    }
}

impl Keys {
    /// Keys of fields with these names, which differ.
    pub fn new(names: Vec<Box<[u8]>>) -> Self {
        let mut table = vec![NOWHERE; (2 * names.len()).next_power_of_two().max(2)];
        let last = table.len() - 1;
        for (field, name) in names.iter().enumerate() {
            let mut slot = hash(name) & last;
            while table[slot] != NOWHERE {
                slot = (slot + 1) & last;
            }
            table[slot] = field as u32;
        }
        let line_of = vec![NOWHERE; names.len()];
        Keys {
            names,
            table,
            lines: Vec::new(),
            line_of,
            unknown: Vec::new(),
        }
    }

    /// Find the key at a cursor, which is behind `{` or `,`: what it stands for, and the place of
    /// its value. `line` is the line that is expected, and becomes the one to expect next. The
    /// name of an unknown key is in `name`.
    #[inline(always)]
    pub fn find<E: Engine>(
        &mut self,
        at: Cursor,
        line: &mut usize,
        name: &mut Vec<u8>,
    ) -> Option<(Target, Cursor)> {
        if let Some(expected) = self.lines.get(*line)
            && expected.is_at(at)
        {
            *line += 1;
            return Some((expected.target, at.skip(expected.text.len())));
        }
        self.find_further::<E>(at, line, name)
    }

    /// The name of a field.
    pub fn field_name(&self, field: usize) -> &[u8] {
        &self.names[field]
    }

    /// The name of a key that is no field.
    pub fn name_of(&self, learnt: usize) -> &[u8] {
        &self.unknown[learnt]
    }

    /// As `find`, where some keys were left out, or anything else is unexpected.
    #[inline(never)]
    fn find_further<E: Engine>(
        &mut self,
        at: Cursor,
        line: &mut usize,
        name: &mut Vec<u8>,
    ) -> Option<(Target, Cursor)> {
        let ahead = *line + 1..(*line + 1 + NEAR).min(self.lines.len());
        for number in ahead.chain(0..NEAR.min(*line)) {
            let each = &self.lines[number];
            if each.is_at(at) {
                *line = number + 1;
                return Some((each.target, at.skip(each.text.len())));
            }
        }
        self.read::<E>(at, line, name)
    }

    fn read<E: Engine>(
        &mut self,
        at: Cursor,
        line: &mut usize,
        name: &mut Vec<u8>,
    ) -> Option<(Target, Cursor)> {
        let quote = at.skip_space();
        if quote.byte() != b'"' {
            return None;
        }
        let start = quote.skip(1);
        name.clear();
        let behind = CopyText::call::<E>(start, name, ())?;
        let is_plain = name.len() + 1 == behind.since(start); // an escape is longer than its letter
        let colon = behind.skip_space();
        if colon.byte() != b':' {
            return None;
        }
        let value = colon.skip(1).skip_space();
        let text = value.from(at);
        let is_learnt = is_plain && text.len() <= LONGEST;
        let target = match self.look_up(name) {
            Some(field) => self.learn_field(field, text, line, is_learnt),
            None => self.learn_unknown(name, text, line, is_learnt),
        };
        Some((target, value))
    }

    /// The field of a name.
    pub fn look_up(&self, name: &[u8]) -> Option<usize> {
        let last = self.table.len() - 1;
        let mut slot = hash(name) & last;
        while self.table[slot] != NOWHERE {
            let field = self.table[slot] as usize;
            if *self.names[field] == *name {
                return Some(field);
            }
            slot = (slot + 1) & last;
        }
        None
    }

    fn learn_field(
        &mut self,
        field: usize,
        text: &[u8],
        line: &mut usize,
        is_learnt: bool,
    ) -> Target {
        let target = Target::Field(field);
        match self.line_of[field] {
            NOWHERE if is_learnt => self.insert(*line, Line::new(text, target)),
            NOWHERE => return target,
            known => {
                *line = known as usize;
                if is_learnt {
                    self.lines[*line].set_text(text);
                }
            }
        }
        *line += 1;
        target
    }

    fn learn_unknown(
        &mut self,
        name: &[u8],
        text: &[u8],
        line: &mut usize,
        is_learnt: bool,
    ) -> Target {
        let Some(known) = self.unknown.iter().position(|each| **each == *name) else {
            if !is_learnt || self.unknown.len() == UNKNOWN_MAX {
                return Target::Unknown;
            }
            let target = Target::Learnt(self.unknown.len());
            self.unknown.push(name.into());
            self.insert(*line, Line::new(text, target));
            *line += 1;
            return target;
        };
        let target = Target::Learnt(known);
        if let Some(at) = self.lines.iter().position(|each| each.target == target) {
            if is_learnt {
                self.lines[at].set_text(text);
            }
            *line = at + 1;
        }
        target
    }

    fn insert(&mut self, at: usize, line: Line) {
        self.lines.insert(at, line);
        for (number, each) in self.lines.iter().enumerate().skip(at) {
            if let Target::Field(field) = each.target {
                self.line_of[field] = number as u32;
            }
        }
    }
}

/// A number that differs for most texts. Texts can be made for which it is equal: compare the texts.
fn hash(text: &[u8]) -> usize {
    let mut state = text.len() as u64;
    let mut add = |part: &[u8; 16]| {
        let (low, high) = part.split_at(8);
        let word = |half: &[u8]| u64::from_le_bytes(half.try_into().unwrap());
        let product = (word(low) ^ ODD) as u128 * (word(high) ^ ODD.rotate_left(32)) as u128;
        // The parts are multiplied side by side; only this waits for what is before. What is before
        // counts whatever a part is, also one whose product is 0.
        state = state.rotate_left(23) ^ product as u64 ^ (product >> 64) as u64;
    };
    text.as_chunks().0.iter().for_each(&mut add);
    match text.last_chunk() {
        Some(last) => add(last), // some of it again: no copy of what is left
        None => {
            let mut padded = [0; 16];
            padded[..text.len()].copy_from_slice(text);
            add(&padded);
        }
    }
    state as usize
}

/// What spreads the bits of a number that it is multiplied by.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
