package sqlite

// LoseHead makes every later write of the audit head's file fail.
func (s *Store) LoseHead() error { return s.head.Close() }
