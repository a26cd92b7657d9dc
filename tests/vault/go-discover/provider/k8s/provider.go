// Package k8s takes the place of the provider for Kubernetes.
package k8s

import (
	"errors"
	"log"
)

type Provider struct{}

func (*Provider) Addrs(map[string]string, *log.Logger) ([]string, error) {
	return nil, errors.New("the test server finds no other servers")
}

func (*Provider) Help() string { return "" }
