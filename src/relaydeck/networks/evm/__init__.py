"""EVM chains: JSON-RPC nodes and the pool over them, addresses, encoded transactions and their signatures."""
