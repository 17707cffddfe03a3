/* SPDX-License-Identifier: Apache-2.0 */
/* TLS failures in plain words: "unable to get local issuer certificate" helps nobody. */
#include "net/tls_internal.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

static const struct {
        long code;
        const char *text;
} certificate_texts[] = {
        { X509_V_ERR_CERT_HAS_EXPIRED, "Its certificate has expired." },
        { X509_V_ERR_CERT_NOT_YET_VALID, "Its certificate is not valid yet." },
        { X509_V_ERR_HOSTNAME_MISMATCH, "Its certificate is for another name." },
        { X509_V_ERR_IP_ADDRESS_MISMATCH, "Its certificate is for another address." },
        { X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, "Its certificate is signed by itself." },
        { X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, "Its certificate is from an issuer that is not trusted here." },
        { X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, "Its certificate is from an issuer that is not trusted here." },
        { X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, "Its certificate is from an issuer that is not trusted here." },
        { X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, "Its certificate is from an issuer that is not trusted here." },
        { X509_V_ERR_CERT_UNTRUSTED, "Its certificate is from an issuer that is not trusted here." },
        { X509_V_ERR_INVALID_CA, "Its certificate was signed by one that may not sign." },
        { X509_V_ERR_INVALID_PURPOSE, "Its certificate is not meant for servers." },
        { X509_V_ERR_CERT_REVOKED, "Its certificate was revoked." },
        { X509_V_ERR_CERT_SIGNATURE_FAILURE, "The signature of its certificate is wrong." },
        { X509_V_ERR_EE_KEY_TOO_SMALL, "The key of its certificate is too short." },
        { X509_V_ERR_CA_KEY_TOO_SMALL, "The key of its issuer is too short." },
        { X509_V_ERR_CA_MD_TOO_WEAK, "Its certificate is signed in a way that can be forged." },
};

static const struct {
        int code, error;
        const char *text;
} handshake_texts[] = {
        { SSL_R_UNEXPECTED_EOF_WHILE_READING, -ECONNRESET, "The connection was cut in the middle of TLS." },
        { SSL_R_WRONG_VERSION_NUMBER, -EPROTO, "It does not speak TLS." },
        { SSL_R_HTTP_REQUEST, -EPROTO, "It speaks plain HTTP where TLS was expected." },
        { SSL_R_PACKET_LENGTH_TOO_LONG, -EPROTO, "It does not speak TLS." },
        { SSL_R_UNSUPPORTED_PROTOCOL, -EPROTO, "It speaks only versions of TLS that are not safe any more." },
        { SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, -EPROTO, "It has no version of TLS in common with Bailey." },
        { SSL_R_NO_SHARED_CIPHER, -EPROTO, "It has no safe cipher in common with Bailey." },
        { SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, -EPROTO, "It refused the TLS handshake." },
        { SSL_R_NO_APPLICATION_PROTOCOL, -EPROTO, "It has no protocol in common with the other end." },
        { SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL, -EPROTO, "It has no protocol in common with the other end." },
        { SSL_R_TLSV1_UNRECOGNIZED_NAME, -EPROTO, "It does not know the name that was asked for." },
        { SSL_R_TLSV1_ALERT_UNKNOWN_CA, -EKEYREJECTED, "It does not trust Bailey's certificate authority." },
        { SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, -EKEYREJECTED, "It does not accept the certificate." },
        { SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, -EKEYREJECTED, "It does not trust Bailey's certificate authority." },
        { SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, -EKEYREJECTED, "It says that the certificate has expired." },
        { SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, -EPROTO, "It asks for a client certificate, and there is none." },
};

static const char *certificate_text(long code) {
        for (size_t i = 0; i < sizeof certificate_texts / sizeof *certificate_texts; i++)
                if (certificate_texts[i].code == code)
                        return certificate_texts[i].text;
        return "Its certificate is not acceptable.";
}

/* The certificate's error if there is one; else the first entry of the queue. That one is the cause; later entries show
 * how it propagated. */
int tls_explain(struct tls_stream *stream, const char **ret_why) {
        int reason = ERR_GET_REASON(ERR_peek_error());

        ERR_clear_error();
        long verified = SSL_get_verify_result(stream->ssl);
        if (verified != X509_V_OK && !stream->ready) {
                *ret_why = certificate_text(verified);
                return -EKEYREJECTED;
        }

        for (size_t i = 0; i < sizeof handshake_texts / sizeof *handshake_texts; i++)
                if (handshake_texts[i].code == reason) {
                        *ret_why = handshake_texts[i].text;
                        return handshake_texts[i].error;
                }

        *ret_why = stream->ready ? "What it sent is not TLS as it must be." : "The TLS handshake with it failed.";
        return -EPROTO;
}
