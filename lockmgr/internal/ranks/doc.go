// Package ranks is a list whose elements each have a rank: a number that is greater than
// those of all elements before it. It is pure.
//
// So of two elements it is known at once, without a walk, which one comes first; and
// lists of some of them can be kept in the same order. An element's rank is changed by
// the list alone: when it is appended or moved, and, rarely, when between two ranks there
// is no number left and all are given new ones. That leaves the order as it is.
//
// The rank lies in the element, as the links do: see package list. An element that is in
// no list may have any rank. A List has no mutex; its user's guards it and its elements.
package ranks
