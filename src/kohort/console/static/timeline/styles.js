/** Styles of marks, as numbers: there may be tens of thousands of marks. */

export const KEPT = 0;
export const MOVED = 1;
export const TAIL = 2;
export const OWNED = 3;
export const NOBODY = 4;
/** Owned by a member that is silent or away. */
export const SILENT = 5;
/** SOME + 0 to SOME + 4: shades for no partitions up to most partitions. */
export const SOME = 6;
export const LEVELS = 5;
