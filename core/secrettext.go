package core

// secretText are forms that nothing but a credential has: private keys, and
// the tokens of services that mark theirs with a prefix for this purpose.
var secretText = pattern(`-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----|\b(gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{50}|glpat-[A-Za-z0-9_-]{20}|xox[abprs]-[A-Za-z0-9-]{20}|(AKIA|ASIA)[A-Z0-9]{16}\b|sk-ant-[A-Za-z0-9_-]{30}|sk_live_[A-Za-z0-9]{20}|npm_[A-Za-z0-9]{36}|AIza[A-Za-z0-9_-]{35})`)

// HoldsSecret tells whether text holds something in the form of a credential.
// It errs towards false: see LooksSecret for the name.
func HoldsSecret(text []byte) bool { return secretText().Match(text) }
