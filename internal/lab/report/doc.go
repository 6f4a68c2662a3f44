// Package report shows what the laboratory found: a witness as lanes in a terminal ([Lanes])
// and as a picture ([SVG]), and a whole run as one self-contained page ([HTML], [WriteDir]).
//
// A picture and its lanes show the same in the same order: the actors on top, the stores below
// them, on one time axis. Every actor has a colour and a letter, in its own lane and wherever
// a store names it. What should not have happened is outlined and crossed. Nothing is shown by
// colour alone.
//
// Pictures are laid out here and not in the browser. Labels are measured with the widths of
// DejaVu Sans, which are wider than those of the fonts of other systems: labels that do not
// collide there do not collide elsewhere.
package report
