package reports

// DerivedTables are the tables of a run: winners, effects of parameters, regret,
// Pareto fronts, wire limit, failures. Empty ones are left out. maxFailures
// bounds the last, 0 means all. link is in GB/s; 0 takes the machine's.
func DerivedTables(l *Loaded, link float64, maxFailures int) []Table {
	if link == 0 {
		link = Wire(l.Run.Machine)
	}
	var out []Table
	for _, t := range []Table{WinnersOf(l), EffectsTable(l.Cases), RegretTable(l.Run), ParetoTable(l.Cases), WireTable(l, link), FailedTable(l.Cases, maxFailures)} {
		if len(t.Rows) > 0 || len(t.Warnings) > 0 {
			out = append(out, t)
		}
	}
	return out
}
