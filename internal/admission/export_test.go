package admission

// ReturnsPerPage is how many buckets a round of returns reads at once.
const ReturnsPerPage = returnsPerPage
