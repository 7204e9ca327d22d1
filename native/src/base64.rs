//! Padded base64: BINARY columns, and what logins exchange.

const NONE: u8 = 0xff;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut i = 0;
    while i < 64 {
        values[ALPHABET[i] as usize] = i as u8;
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

/// Return the text that stands for `bytes`.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..4 {
            text.push(if place > group.len() {
                '='
            } else {
                ALPHABET[(bits >> (18 - 6 * place)) as usize & 63] as char
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("fooba", "Zm9vYmE="),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            let mut back = Vec::new();
            assert_eq!(decode(text.as_bytes(), &mut back), Some(()));
            assert_eq!(back, bytes.as_bytes());
        }
        assert_eq!(encode(&[0xfb, 0xff, 0xfe]), "+//+");
    }
}
