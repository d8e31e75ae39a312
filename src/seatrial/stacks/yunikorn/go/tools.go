//go:build tools

// Package tools names the program that is built from this module.
package tools

import _ "github.com/apache/yunikorn-k8shim/pkg/cmd/shim"
