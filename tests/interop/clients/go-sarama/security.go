package main

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/IBM/sarama"
)

// What --security=FILE tells.
var given = map[string]string{}

// arguments are those of the command line, behind --security=FILE.
func arguments() []string {
	args := os.Args[1:]
	file, secured := strings.CutPrefix(args[0], "--security=")
	if !secured {
		return args
	}
	text, err := os.ReadFile(file)
	check(err)
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		name, value, _ := strings.Cut(line, "=")
		given[name] = value
	}
	return args[1:]
}

func secure(c *sarama.Config) {
	if strings.HasSuffix(given["security.protocol"], "SSL") {
		c.Net.TLS.Enable = true
		c.Net.TLS.Config = tlsConfig()
	}
	mechanism := given["sasl.mechanism"]
	if mechanism == "" {
		return
	}
	c.Net.SASL.Enable = true
	c.Net.SASL.Mechanism = sarama.SASLMechanism(mechanism)
	c.Net.SASL.User, c.Net.SASL.Password = given["sasl.username"], given["sasl.password"]
	switch mechanism {
	case "SCRAM-SHA-256":
		c.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scram{hash: sha256.New, size: sha256.Size} }
	case "SCRAM-SHA-512":
		c.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scram{hash: sha512.New, size: sha512.Size} }
	case "OAUTHBEARER":
		c.Net.SASL.TokenProvider = tokens{}
	}
}

func tlsConfig() *tls.Config {
	pem, err := os.ReadFile(given["ssl.ca.location"])
	check(err)
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		log.Fatal(fmt.Errorf("no certificate in %s", given["ssl.ca.location"]))
	}
	if file := given["ssl.certificate.location"]; file != "" {
		own, err := tls.LoadX509KeyPair(file, given["ssl.key.location"])
		check(err)
		config.Certificates = []tls.Certificate{own}
	}
	return config
}

type tokens struct{}

func (tokens) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: given["token"]}, nil
}

// scram is RFC 5802's client, which sarama leaves to its users; names and passwords here need no escaping.
type scram struct {
	hash                  func() hash.Hash
	size                  int
	password, nonce, bare string
	serverKey             []byte
	signed                string
	done                  bool
}

func (s *scram) Begin(user, password, _ string) error {
	random := make([]byte, 18)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	s.password, s.nonce = password, base64.StdEncoding.EncodeToString(random)
	s.bare = "n=" + user + ",r=" + s.nonce
	return nil
}

func (s *scram) Step(challenge string) (string, error) {
	if challenge == "" {
		return "n,," + s.bare, nil
	}
	fields := map[string]string{}
	for _, field := range strings.Split(challenge, ",") {
		name, value, _ := strings.Cut(field, "=")
		fields[name] = value
	}
	if signature, last := fields["v"]; last {
		return "", s.verify(signature)
	}
	return s.prove(challenge, fields)
}

func (s *scram) prove(challenge string, fields map[string]string) (string, error) {
	salt, err := base64.StdEncoding.DecodeString(fields["s"])
	if err != nil {
		return "", err
	}
	iterations, err := strconv.Atoi(fields["i"])
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(fields["r"], s.nonce) {
		return "", errors.New("the server's nonce does not begin with ours")
	}
	salted, err := pbkdf2.Key(s.hash, s.password, salt, iterations, s.size)
	if err != nil {
		return "", err
	}
	without := "c=biws,r=" + fields["r"]
	s.signed = s.bare + "," + challenge + "," + without
	key := s.mac(salted, "Client Key")
	digest := s.hash()
	digest.Write(key)
	signature := s.mac(digest.Sum(nil), s.signed)
	subtle.XORBytes(key, key, signature)
	s.serverKey = s.mac(salted, "Server Key")
	return without + ",p=" + base64.StdEncoding.EncodeToString(key), nil
}

func (s *scram) verify(signature string) error {
	s.done = true
	if base64.StdEncoding.EncodeToString(s.mac(s.serverKey, s.signed)) != signature {
		return errors.New("the server does not know the password")
	}
	return nil
}

func (s *scram) mac(key []byte, text string) []byte {
	mac := hmac.New(s.hash, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func (s *scram) Done() bool { return s.done }
