#!/bin/sh
# Makes the certificates of tests/secured_kafka.py anew, by openssl: two authorities, the broker's
# own certificate, one of another host, and a client's. Keys of tests, which open nothing.
set -e
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
new="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"

authority() { # FILE NAME
    openssl req -x509 $new -keyout "$work/$1.key" -out "$1.pem" -days 36500 -subj "/CN=$2" \
        -addext "keyUsage=critical,keyCertSign,cRLSign"
}

certificate() { # FILE NAME HOSTS
    openssl req $new -keyout "$work/$1.key" -out "$work/$1.csr" -subj "/CN=$2"
    printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$3" >"$work/ext"
    openssl x509 -req -in "$work/$1.csr" -CA ca.pem -CAkey "$work/ca.key" -CAcreateserial \
        -CAserial "$work/serial" -days 36500 -extfile "$work/ext" -out "$work/$1.crt"
    cat "$work/$1.key" "$work/$1.crt" >"$1.pem"
}

authority ca "Tests"
authority other-ca "Tests, others"
certificate broker broker "IP:127.0.0.1,DNS:localhost"
certificate elsewhere elsewhere "DNS:elsewhere.example"
certificate client dave "DNS:client.example"
