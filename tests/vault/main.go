// A HashiCorp Vault server for tests: Vault's own core, HTTP interface and policies, in memory, on loopback, with the
// three parts that the tests use (approle, kv, transit). The official command contains every plugin and takes several
// times as long to build; the code that answers the requests is the same.
//
// It prints one line of JSON (address, root token) once it is unsealed, and ends when its standard input is closed.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/hashicorp/go-hclog"
	kv "github.com/hashicorp/vault-plugin-secrets-kv"
	"github.com/hashicorp/vault/builtin/credential/approle"
	"github.com/hashicorp/vault/builtin/logical/transit"
	vaulthttp "github.com/hashicorp/vault/http"
	"github.com/hashicorp/vault/internalshared/configutil"
	"github.com/hashicorp/vault/sdk/helper/consts"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/sdk/physical/inmem"
	"github.com/hashicorp/vault/vault"
)

var secrets = map[string]logical.Factory{"kv": kv.Factory, "transit": transit.Factory}
var credentials = map[string]logical.Factory{"approle": approle.Factory}

// registry says which plugins are part of this server.
type registry struct{}

func (registry) Keys(kind consts.PluginType) []string {
	names := []string{}
	for name := range factories(kind) {
		names = append(names, name)
	}
	return names
}

func (registry) Contains(name string, kind consts.PluginType) bool {
	_, found := factories(kind)[name]
	return found
}

func (registry) Get(name string, kind consts.PluginType) (func() (interface{}, error), bool) {
	factory, found := factories(kind)[name]
	return func() (interface{}, error) { return factory, nil }, found
}

func (r registry) DeprecationStatus(name string, kind consts.PluginType) (consts.DeprecationStatus, bool) {
	return consts.Supported, r.Contains(name, kind)
}

func (registry) IsBuiltinEntPlugin(string, consts.PluginType) bool { return false }

func factories(kind consts.PluginType) map[string]logical.Factory {
	switch kind {
	case consts.PluginTypeSecrets:
		return secrets
	case consts.PluginTypeCredential:
		return credentials
	}
	return nil
}

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := "http://" + listener.Addr().String()
	core, token, err := unsealed(address)
	if err != nil {
		return err
	}
	handler := vaulthttp.Handler.Handler(&vault.HandlerProperties{Core: core, ListenerConfig: &configutil.Listener{}})
	go http.Serve(listener, handler)
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"address": address, "token": token}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func unsealed(address string) (*vault.Core, string, error) {
	logger := hclog.New(&hclog.LoggerOptions{Level: hclog.Error})
	storage, err := inmem.NewInmem(nil, logger)
	if err != nil {
		return nil, "", err
	}
	core, err := vault.NewCore(&vault.CoreConfig{
		Physical: storage, Logger: logger, DisableMlock: true, RedirectAddr: address, BuiltinRegistry: registry{},
		LogicalBackends: secrets, CredentialBackends: credentials,
	})
	if err != nil {
		return nil, "", err
	}
	one := &vault.SealConfig{SecretShares: 1, SecretThreshold: 1}
	made, err := core.Initialize(context.Background(), &vault.InitParams{BarrierConfig: one, RecoveryConfig: one})
	if err != nil {
		return nil, "", err
	}
	_, err = core.Unseal(made.SecretShares[0])
	return core, made.RootToken, err
}
