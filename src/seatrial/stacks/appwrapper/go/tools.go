//go:build tools

package tools

import _ "github.com/project-codeflare/appwrapper/cmd"
