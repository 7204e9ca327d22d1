//! BINARY columns: padded base64.

const NONE: u8 = 0xff;
const VALUES: [u8; 256] = {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut values = [NONE; 256];
    let mut i = 0;
    while i < 64 {
        values[alphabet[i] as usize] = i as u8;
        i += 1;
    }
    values
};

/// Append the bytes that a text stands for. None: it is not what encoders write, and something of
/// it may have been appended.
pub fn decode(text: &[u8], to: &mut Vec<u8>) -> Option<()> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text
        .iter()
        .rev()
        .take(2)
        .take_while(|byte| **byte == b'=')
        .count();
    to.reserve(text.len() / 4 * 3);
    for (number, group) in text.chunks_exact(4).enumerate() {
        let is_last = 4 * (number + 1) == text.len();
        let missing = if is_last { padding } else { 0 };
        let mut bits = 0u32;
        for (place, byte) in group.iter().enumerate() {
            let value = if place >= 4 - missing {
                0
            } else {
                VALUES[*byte as usize]
            };
            if value == NONE {
                return None;
            }
            bits = bits << 6 | value as u32;
        }
        to.extend_from_slice(&bits.to_be_bytes()[1..4 - missing]);
    }
    Some(())
}
