package plan

// Class is a routing class: what a table keys skew by. See Classify.
type Class string

// AnyRouting is the class of minimax-regret rows: the choice for a routing
// nobody has classified.
const AnyRouting Class = "any"
