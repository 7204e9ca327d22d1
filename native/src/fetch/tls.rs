//! TLS: the certificates that a connection trusts and shows.
//!
//! Certificates are checked as the options say, and never less: a file that cannot be read is an
//! error, and so is an empty list of trusted certificates.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// Where systems keep trusted certificates; the first file that exists is used.
const SYSTEM_TRUST: [&str; 6] = [
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
];

/// Certificates or a key in PEM.
pub enum Pem {
    /// A file; of certificates also a directory of files.
    File(PathBuf),
    /// The text itself.
    Text(String),
}

/// How connections are encrypted.
#[derive(Clone)]
pub struct Tls(Arc<ClientConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Tls") // no key
    }
}

impl Tls {
    /// Trust these certificates, or those of the system; show an identity (chain and key) on
    /// request. Without `checks_name` a certificate may be of any host.
    ///
    /// # Errors
    /// A message without secrets, if something cannot be read.
    pub fn new(
        trust: Option<&Pem>,
        identity: Option<(&Pem, &Pem)>,
        checks_name: bool,
    ) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let roots = Arc::new(read_trust(trust)?);
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = if checks_name {
            let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
                .build()
                .map_err(|error| error.to_string())?;
            builder.with_webpki_verifier(verifier)
        } else {
            let verifier = Arc::new(OfAnyHost { roots, provider });
            builder
                .dangerous()
                .with_custom_certificate_verifier(verifier)
        };
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let place = chain;
                let chain = read_certificates(place)?;
                if chain.is_empty() {
                    return Err(format!("{place} contains no certificate"));
                }
                builder
                    .with_client_auth_cert(chain, read_key(key)?)
                    .map_err(|error| format!("the certificate of the client: {error}"))?
            }
        };
        Ok(Tls(Arc::new(config)))
    }

    /// Start a session with a host.
    pub(super) fn session(&self, host: &str) -> io::Result<ClientConnection> {
        let invalid = |error: Error| io::Error::new(io::ErrorKind::InvalidData, error);
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| invalid(Error::General("not a valid host name for TLS".into())))?;
        ClientConnection::new(self.0.clone(), name).map_err(invalid)
    }
}

fn read_trust(trust: Option<&Pem>) -> Result<RootCertStore, String> {
    let found = SYSTEM_TRUST.iter().find(|each| Path::new(each).exists());
    let of_system = Pem::File(found.unwrap_or(&SYSTEM_TRUST[0]).into());
    let pem = trust.unwrap_or(&of_system);
    let mut roots = RootCertStore::empty();
    let (known, _) = roots.add_parsable_certificates(read_certificates(pem)?);
    if known == 0 {
        return Err(format!("{pem} contains no certificate of an authority"));
    }
    Ok(roots)
}

fn read_certificates(pem: &Pem) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut found = Vec::new();
    for text in read_texts(pem)? {
        for each in CertificateDer::pem_slice_iter(&text) {
            found.push(each.map_err(|_| format!("{pem} is not valid PEM"))?);
        }
    }
    Ok(found)
}

fn read_key(pem: &Pem) -> Result<PrivateKeyDer<'static>, String> {
    let text = read_texts(pem)?.concat();
    PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
        format!("{pem} contains no private key in PEM that is readable without a password")
    })
}

fn read_texts(pem: &Pem) -> Result<Vec<Vec<u8>>, String> {
    let path = match pem {
        Pem::Text(text) => return Ok(vec![text.as_bytes().to_vec()]),
        Pem::File(path) => path,
    };
    let read = || {
        if !path.is_dir() {
            return Ok(vec![std::fs::read(path)?]);
        }
        let mut texts = Vec::new();
        for entry in std::fs::read_dir(path)? {
            let place = entry?.path();
            if place.is_file() {
                texts.push(std::fs::read(place)?);
            }
        }
        Ok(texts)
    };
    read().map_err(|error: io::Error| format!("{pem}: {error}"))
}

impl fmt::Display for Pem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pem::File(path) => write!(out, "{}", path.display()),
            Pem::Text(_) => out.write_str("the PEM in the options"), // it may be a key
        }
    }
}

/// Requires a trusted signature of a certificate, which may be of any host.
#[derive(Debug)]
struct OfAnyHost {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for OfAnyHost {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(end_entity)?,
            &self.roots,
            intermediates,
            now,
            self.provider.signature_verification_algorithms.all,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/certificates");

    fn file(name: &str) -> Pem {
        Pem::File(Path::new(CERTIFICATES).join(name))
    }

    fn text(text: &str) -> Pem {
        Pem::Text(text.into())
    }

    fn refused(trust: &Pem, identity: Option<(&Pem, &Pem)>) -> String {
        Tls::new(Some(trust), identity, true).unwrap_err()
    }

    #[test]
    fn certificates_come_from_files_texts_and_directories() {
        let read = std::fs::read_to_string(Path::new(CERTIFICATES).join("ca.pem")).unwrap();
        for trust in [file("ca.pem"), text(&read), file("")] {
            assert!(Tls::new(Some(&trust), None, true).is_ok());
        }
        let client = file("client.pem");
        assert!(Tls::new(Some(&file("ca.pem")), Some((&client, &client)), false).is_ok());
    }

    #[test]
    fn what_holds_no_certificate_trusts_nobody() {
        for nothing in [text(""), text("no PEM"), file("make.sh")] {
            let error = refused(&nothing, None);
            assert!(error.contains("contains no certificate"), "{error}");
        }
        let error = refused(&file("missing.pem"), None);
        assert!(error.contains("missing.pem: No such file"), "{error}");
        let cut = text("-----BEGIN CERTIFICATE-----\nMIIB\n");
        assert!(refused(&cut, None).contains("not valid PEM"));
    }

    #[test]
    fn an_identity_that_does_not_fit_is_refused_without_its_key() {
        let (trust, client, broker) = (file("ca.pem"), file("client.pem"), file("broker.pem"));
        let error = refused(&trust, Some((&client, &broker)));
        assert!(error.contains("certificate of the client"), "{error}");
        let error = refused(&trust, Some((&trust, &text("a secret"))));
        assert!(error.contains("no private key"), "{error}");
        assert!(!error.contains("a secret"), "{error}");
        assert!(refused(&trust, Some((&text(""), &client))).contains("no certificate"));
        let tls = Tls::new(Some(&trust), Some((&client, &client)), true).unwrap();
        assert_eq!(format!("{tls:?}"), "Tls");
    }

    #[test]
    fn a_host_is_a_name_or_an_address() {
        let tls = Tls::new(Some(&file("ca.pem")), None, true).unwrap();
        for host in ["kafka-1.internal", "kafka_1", "10.0.0.1", "::1"] {
            assert!(tls.session(host).is_ok(), "{host}");
        }
        assert!(tls.session("not a name").is_err());
    }
}
