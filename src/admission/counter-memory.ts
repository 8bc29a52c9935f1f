// Sizes of the shared memory of admission: one table of records for all threads, and for each HTTP worker a ledger of
// its own reservations in that table.

import { tableBytes } from './record-table.js';

const RECORDS = 131_072;

/** Size of the table in bytes. Untouched pages cost no memory. */
export const COUNTER_BYTES = tableBytes(RECORDS);

/** Size of the ledgers of `threads` threads in bytes. */
export const ledgerBytes = (threads: number): number => threads * RECORDS * Int32Array.BYTES_PER_ELEMENT;

/**
 * The ledger of thread `index` (1 and up): its unfinished requests, which are released if it terminates unexpectedly.
 */
export const ledgerOf = (buffer: SharedArrayBuffer, index: number): Int32Array =>
  new Int32Array(buffer, (index - 1) * RECORDS * Int32Array.BYTES_PER_ELEMENT, RECORDS);
