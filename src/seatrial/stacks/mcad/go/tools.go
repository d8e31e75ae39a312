//go:build tools

package tools

import _ "github.com/project-codeflare/multi-cluster-app-dispatcher/cmd/kar-controllers"
