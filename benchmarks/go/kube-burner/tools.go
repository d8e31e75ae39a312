//go:build tools

package tools

import _ "github.com/kube-burner/kube-burner/cmd/kube-burner"
