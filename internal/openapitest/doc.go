// Package openapitest holds what a server says against its OpenAPI 3.1
// description: the file itself, every request that is accepted, and every
// answer. It is stricter than the description's readers have to be: what the
// file does not name, be it a status, a header or a field, is a mistake.
//
// Schemas of OpenAPI 3.1 are JSON Schema 2020-12, so a library for that does
// the work; what is around the schemas is read here. References lead to other
// places in the same file.
package openapitest
