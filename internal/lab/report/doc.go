// Package report shows what the laboratory found: a witness as lanes in a terminal
// ([Lanes]) and as a picture ([SVG]), and all of a run as one page that needs
// nothing but a browser ([HTML], [WriteDir]).
//
// A picture and its lanes tell the same in the same order: the actors on top, the
// stores below them, one time axis for all. Every actor has a colour and a letter,
// in its own lane and wherever a store names it; what should not be is outlined
// and crossed. Nothing is told by colour alone.
//
// Pictures are laid out here and not in the browser, so labels are measured with
// the widths of DejaVu Sans, which are wider than those of the fonts that other
// systems have: what does not collide there collides nowhere.
package report
