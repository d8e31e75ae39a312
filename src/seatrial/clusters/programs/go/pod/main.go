// What real containers run, and the network plugin that they get: the whole image, without a dependency.
//
// `pod` waits for SIGTERM (the pause container, and pods whose time is not known yet), `pod 10s` that long at most: both end with
// status 0. With CNI_COMMAND in its environment it is a network plugin, which changes nothing: a pod has a network namespace of
// its own with nothing in it, and an address that only the API shows.
package main

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	var err error
	if command := os.Getenv("CNI_COMMAND"); command != "" {
		err = plug(command)
	} else {
		err = sleep(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func sleep(args []string) error {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	var over <-chan time.Time
	if len(args) > 0 {
		long, err := time.ParseDuration(args[0])
		if err != nil {
			return err
		}
		over = time.After(long)
	}
	select {
	case <-told:
	case <-over:
	}
	return nil
}

type network struct {
	Version string `json:"cniVersion"`
}

type device struct {
	Name    string `json:"name"`
	Sandbox string `json:"sandbox"`
}

type address struct {
	Version   string `json:"version"`
	Interface int    `json:"interface"`
	Address   string `json:"address"`
}

type result struct {
	Version    string    `json:"cniVersion"`
	Interfaces []device  `json:"interfaces,omitempty"`
	IPs        []address `json:"ips,omitempty"`
}

// plug answers as the specification says (version 0.3.1, which every containerd speaks).
func plug(command string) error {
	var asked network
	if command == "VERSION" {
		return answer(map[string]any{"cniVersion": "0.3.1", "supportedVersions": []string{"0.3.0", "0.3.1"}})
	}
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	if command != "ADD" {
		return nil
	}
	made := result{Version: asked.Version}
	if name := os.Getenv("CNI_IFNAME"); filepath.Base(os.Args[0]) != "loopback" {
		made.Interfaces = []device{{name, os.Getenv("CNI_NETNS")}}
		made.IPs = []address{{"4", 0, invented(os.Getenv("CNI_CONTAINERID"))}}
	}
	return answer(made)
}

func answer(what any) error { return json.NewEncoder(os.Stdout).Encode(what) }

// invented is an address of 10.0.0.0/8 that depends on the sandbox alone. Two may be the same: nobody dials one.
func invented(sandbox string) string {
	sum := fnv.New32a()
	fmt.Fprint(sum, sandbox)
	n := sum.Sum32()
	return fmt.Sprintf("10.%d.%d.%d/8", n>>16&255, n>>8&255, n&255)
}
