package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
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

func security() []kgo.Opt {
	options := []kgo.Opt{}
	if strings.HasSuffix(given["security.protocol"], "SSL") {
		options = append(options, kgo.DialTLSConfig(tlsConfig()))
	}
	if given["sasl.mechanism"] != "" {
		options = append(options, kgo.SASL(mechanism()))
	}
	return options
}

func mechanism() sasl.Mechanism {
	user, password := given["sasl.username"], given["sasl.password"]
	switch given["sasl.mechanism"] {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: given["token"]}.AsMechanism()
	}
	log.Fatalf("unknown mechanism %s", given["sasl.mechanism"])
	return nil
}
