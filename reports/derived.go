package reports

// DerivedTables are the tables of a run that people read: winners, effects of
// parameters, regret matrices, Pareto fronts, the wire floor and what failed.
// Empty ones are left out. maxFailures bounds the last; 0 means all. link is
// in GB/s, see FloorTable; 0 takes the machine's.
func DerivedTables(l *Loaded, link float64, maxFailures int) []Table {
	if link == 0 {
		link = Wire(l.Run.Machine)
	}
	all := []Table{WinnersOf(l), EffectsTable(l.Cases)}
	for _, r := range l.Run.Regrets {
		all = append(all, RegretTable(r))
	}
	all = append(all, ParetoTable(l.Cases), FloorTable(l, link), QuarantineTable(l.Cases, maxFailures))
	var out []Table
	for _, t := range all {
		if len(t.Rows) > 0 || len(t.Warnings) > 0 {
			out = append(out, t)
		}
	}
	return out
}
