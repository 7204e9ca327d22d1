//! Logins: SASL's PLAIN, and SCRAM with SHA-256 and SHA-512 (RFC 5802, RFC 7677).
//!
//! What it is: a client's messages, in reply to the broker's. What it promises: a broker must prove
//! by SCRAM that it knows the password; no error has a secret.

use std::fmt;
use std::num::NonZeroU32;

use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};

use crate::base64;

/// Iterations that a broker may ask for: at least those of Kafka's clients, at most about a second.
const ITERATIONS: std::ops::RangeInclusive<u32> = 4_096..=2_000_000;
const NONCE_BYTES: usize = 24;

/// A mechanism, with user and password.
#[derive(Clone)]
pub struct Login {
    mechanism: Mechanism,
    user: String,
    password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Login({})", self.mechanism.name()) // no name, no password
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mechanism {
    Plain,
    ScramSha256,
    ScramSha512,
}

impl Mechanism {
    const ALL: [Mechanism; 3] = [Self::Plain, Self::ScramSha256, Self::ScramSha512];

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

impl Login {
    /// A login by one of the mechanisms.
    ///
    /// # Errors
    /// The mechanism is not supported.
    pub fn new(mechanism: &str, user: String, password: String) -> Result<Self, String> {
        let known = Mechanism::ALL
            .into_iter()
            .find(|each| each.name() == mechanism);
        let mechanism =
            known.ok_or_else(|| format!("the mechanism {mechanism} is not supported"))?;
        Ok(Login {
            mechanism,
            user,
            password,
        })
    }

    pub(super) fn mechanism(&self) -> &'static str {
        self.mechanism.name()
    }

    /// Start an exchange, with the client's first message.
    pub(super) fn begin(&self) -> Result<(Exchange<'_>, Vec<u8>), String> {
        if self.mechanism == Mechanism::Plain {
            let first = format!("\0{}\0{}", self.user, self.password);
            return Ok((Exchange::Complete, first.into_bytes()));
        }
        let mut nonce = [0; NONCE_BYTES];
        let random = SystemRandom::new().fill(&mut nonce);
        random.map_err(|_| "the operating system returned no random bytes")?;
        let scram = Scram::new(self, base64::encode(&nonce));
        let first = format!("n,,{}", scram.first_bare());
        Ok((Exchange::Begun(scram), first.into_bytes()))
    }
}

/// The state of an exchange.
pub(super) enum Exchange<'a> {
    /// SCRAM: the broker's salt is next.
    Begun(Scram<'a>),
    /// SCRAM: this signature of the broker is next.
    Proven(hmac::Key, String),
    /// The exchange is complete; the broker accepts it by answering without an error.
    Complete,
}

impl Exchange<'_> {
    /// Process the broker's message; return the client's next one, or None at the end.
    pub(super) fn next(&mut self, reply: &[u8]) -> Result<Option<Vec<u8>>, String> {
        match std::mem::replace(self, Exchange::Complete) {
            Exchange::Complete => Ok(None),
            Exchange::Begun(scram) => {
                let (next, key, message) = scram.prove(reply)?;
                *self = Exchange::Proven(key, message);
                Ok(Some(next))
            }
            Exchange::Proven(key, message) => {
                let fields = fields(reply)?;
                let signature = decode(field(&fields, 'v')?)?;
                hmac::verify(&key, message.as_bytes(), &signature)
                    .map_err(|_| "the broker's SCRAM signature is wrong")?;
                Ok(None)
            }
        }
    }
}

/// SCRAM, once the client has sent its nonce.
pub(super) struct Scram<'a> {
    login: &'a Login,
    nonce: String,
}

impl<'a> Scram<'a> {
    fn new(login: &'a Login, nonce: String) -> Self {
        Scram { login, nonce }
    }

    fn first_bare(&self) -> String {
        let user = self.login.user.replace('=', "=3D").replace(',', "=2C");
        format!("n={user},r={}", self.nonce)
    }

    /// Return the client's last message, and key and text of the signature that the broker must send.
    fn prove(&self, server_first: &[u8]) -> Result<(Vec<u8>, hmac::Key, String), String> {
        let fields = fields(server_first)?;
        let nonce = field(&fields, 'r')?;
        if fields[0].0 != 'r' || !nonce.starts_with(&self.nonce) || nonce == self.nonce {
            return Err("the broker's SCRAM message has another nonce".into());
        }
        let salt = decode(field(&fields, 's')?)?;
        let iterations = field(&fields, 'i')?.parse().ok();
        let Some(iterations) = iterations.filter(|count| ITERATIONS.contains(count)) else {
            let text = "the broker asks for too few or too many iterations of SCRAM";
            return Err(text.into());
        };
        let iterations = NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN);
        let (derive, sign, hash) = match self.login.mechanism {
            Mechanism::ScramSha512 => {
                let derive = pbkdf2::PBKDF2_HMAC_SHA512;
                (derive, hmac::HMAC_SHA512, &digest::SHA512)
            }
            _ => {
                let derive = pbkdf2::PBKDF2_HMAC_SHA256;
                (derive, hmac::HMAC_SHA256, &digest::SHA256)
            }
        };
        let mut salted = vec![0; hash.output_len()];
        let password = self.login.password.as_bytes();
        pbkdf2::derive(derive, iterations, &salt, password, &mut salted);
        let salted = hmac::Key::new(sign, &salted);

        let last_bare = format!("c=biws,r={nonce}"); // biws: "n,,", no channel binding
        let server_first = std::str::from_utf8(server_first).unwrap_or_default();
        let message = format!("{},{server_first},{last_bare}", self.first_bare());
        let client_key = hmac::sign(&salted, b"Client Key");
        let stored_key = digest::digest(hash, client_key.as_ref());
        let stored_key = hmac::Key::new(sign, stored_key.as_ref());
        let signature = hmac::sign(&stored_key, message.as_bytes());
        let pairs = client_key.as_ref().iter().zip(signature.as_ref());
        let proof: Vec<u8> = pairs.map(|(key, signature)| key ^ signature).collect();
        let last = format!("{last_bare},p={}", base64::encode(&proof));
        let server_key = hmac::sign(&salted, b"Server Key");
        let server_key = hmac::Key::new(sign, server_key.as_ref());
        Ok((last.into_bytes(), server_key, message))
    }
}

const NOT_SCRAM: &str = "the broker's message is not valid SCRAM";

/// Split a message of SCRAM into its fields, of which there is at least one.
fn fields(reply: &[u8]) -> Result<Vec<(char, &str)>, String> {
    let text = std::str::from_utf8(reply).map_err(|_| NOT_SCRAM)?;
    let found: Option<Vec<_>> = text
        .split(',')
        .map(|each| {
            let (name, value) = each.split_once('=')?;
            let mut name = name.chars();
            Some((name.next()?, value)).filter(|_| name.next().is_none())
        })
        .collect();
    let found = found.ok_or(NOT_SCRAM)?;
    match found[0] {
        ('e', _) => Err("the broker refuses the login".into()),
        ('m', _) => Err("the broker asks for an extension of SCRAM".into()),
        _ => Ok(found),
    }
}

fn field<'a>(fields: &[(char, &'a str)], name: char) -> Result<&'a str, String> {
    let found = fields.iter().find(|each| each.0 == name);
    found.map(|each| each.1).ok_or_else(|| NOT_SCRAM.into())
}

fn decode(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    match base64::decode(text.as_bytes(), &mut bytes) {
        Some(()) => Ok(bytes),
        None => Err(NOT_SCRAM.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677.
    const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                                s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const CLIENT_LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                               p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    const SERVER_LAST: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    fn login(mechanism: &str) -> Login {
        Login::new(mechanism, "user".into(), "pencil".into()).unwrap()
    }

    fn begun(login: &Login) -> Exchange<'_> {
        Exchange::Begun(Scram::new(login, "rOprNGfwEbeRWgbNEkqO".into()))
    }

    #[test]
    fn the_example_of_the_standard_is_spoken() {
        let login = login("SCRAM-SHA-256");
        let mut exchange = begun(&login);
        let last = exchange.next(SERVER_FIRST.as_bytes()).unwrap().unwrap();
        assert_eq!(String::from_utf8(last).unwrap(), CLIENT_LAST);
        assert_eq!(exchange.next(SERVER_LAST.as_bytes()), Ok(None));
    }

    #[test]
    fn a_broker_that_does_not_know_the_password_is_not_believed() {
        let login = login("SCRAM-SHA-256");
        for wrong in [
            "v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
            "v=",
            "v=AAAA",
            "e=invalid-proof",
            "",
            "x",
        ] {
            let mut exchange = begun(&login);
            exchange.next(SERVER_FIRST.as_bytes()).unwrap();
            let error = exchange.next(wrong.as_bytes()).unwrap_err();
            assert!(!error.contains("pencil"), "{error}");
        }
    }

    #[test]
    fn a_first_answer_that_is_not_for_this_login_is_refused() {
        let login = login("SCRAM-SHA-512");
        let nonce = "rOprNGfwEbeRWgbNEkqO";
        for wrong in [
            SERVER_FIRST.replace("rOpr", "another"),
            format!("r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"), // the client's nonce alone
            SERVER_FIRST.replace("4096", "4095"),
            SERVER_FIRST.replace("4096", "4000000000"),
            SERVER_FIRST.replace("4096", "-1"),
            SERVER_FIRST.replace("s=W22", "s=?22"),
            SERVER_FIRST.replace(",s=", ",x="),
            format!("m=new,{SERVER_FIRST}"),
        ] {
            assert!(begun(&login).next(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(begun(&login).next(&[0xff]).is_err());
    }

    #[test]
    fn names_are_escaped_and_secrets_are_not_shown() {
        let login = Login::new("SCRAM-SHA-256", "a=b,c".into(), "secret".into()).unwrap();
        let (_, first) = login.begin().unwrap();
        let first = String::from_utf8(first).unwrap();
        assert!(first.starts_with("n,,n=a=3Db=2Cc,r="), "{first}");
        let (_, again) = login.begin().unwrap();
        assert_ne!(first.as_bytes(), again, "a nonce is used once");
        assert!(!format!("{login:?}").contains("secret"));
    }

    #[test]
    fn plain_is_said_at_once() {
        let login = login("PLAIN");
        let (mut exchange, first) = login.begin().unwrap();
        assert_eq!(first, b"\0user\0pencil");
        assert_eq!(exchange.next(b""), Ok(None));
        assert!(Login::new("GSSAPI", String::new(), String::new()).is_err());
    }
}
