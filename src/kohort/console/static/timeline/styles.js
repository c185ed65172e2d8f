/** The kinds of marks: numbers, as there may be very many of them. */

export const KEPT = 0;
export const MOVED = 1;
export const TAIL = 2;
export const OWNED = 3;
export const NOBODY = 4;
/** Had by one that was not there: silent, or away. */
export const SILENT = 5;
/** SOME + 0 to SOME + 4: no partitions, few, … most. */
export const SOME = 6;
export const LEVELS = 5;
