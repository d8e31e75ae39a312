//go:build tools

// Package tools names the program that is built from this module.
package tools

import _ "volcano.sh/volcano/cmd/scheduler"
