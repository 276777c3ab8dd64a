// Package keytype has what the scripts in Redis do about a key of another type than they
// need: keytype.lua, which stands before each of them.
package keytype

import _ "embed" // the source

// Source is what a script that uses its functions begins with.
//
//go:embed keytype.lua
var Source string
