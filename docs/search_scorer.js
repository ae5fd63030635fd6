// How the search ranks pages. The page that answers questions comes before others with the same words, and pages about the
// project itself come last. The numbers other than `score` are Sphinx's own.
var Scorer = {
  score: ([page, , , , score]) => {
    if (page === "reading_the_dashboard") return score + 2;
    if (["architecture", "benchmarks", "changelog", "contributing", "policies", "security"].includes(page)) return score - 20;
    return score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
