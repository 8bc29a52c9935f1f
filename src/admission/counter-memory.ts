// The sizes of the memory that admission counts in: one table of records for all threads, and for each answering
// thread a ledger of what it has entered there.

import { tableBytes } from './record-table.js';

const RECORDS = 131_072;

/** Of the memory that all threads count in. Untouched parts of it cost nothing. */
export const COUNTER_BYTES = tableBytes(RECORDS);

/** Of the memory in which each of `threads` threads writes down what it has admitted. */
export const ledgerBytes = (threads: number): number => threads * RECORDS * Int32Array.BYTES_PER_ELEMENT;

/** What thread `index` (1 and up) has admitted and not finished: to be taken back if it ends by itself. */
export const ledgerOf = (buffer: SharedArrayBuffer, index: number): Int32Array =>
  new Int32Array(buffer, (index - 1) * RECORDS * Int32Array.BYTES_PER_ELEMENT, RECORDS);
