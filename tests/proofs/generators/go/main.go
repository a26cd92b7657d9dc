// Calls a live service through the client that was generated into the folder `generated`.
package main

import (
	"context"
	"fmt"
	"os"

	generated "relaydeck/generated"
)

func main() {
	configuration := generated.NewConfiguration()
	configuration.Servers = generated.ServerConfigurations{{URL: os.Args[1]}}
	client := generated.NewAPIClient(configuration)
	caller := context.WithValue(context.Background(), generated.ContextAccessToken, os.Args[2])
	found, _, err := client.SignersAPI.ListSigners(caller).Execute()
	if err != nil {
		panic(err)
	}
	fmt.Println(found.Data[0].Id)
}
