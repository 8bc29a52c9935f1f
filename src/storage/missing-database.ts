import { StorageError } from './store.js';

/** Thrown if there is no database yet. Commands do not create a database, because the address may be mistyped. */
export class MissingDatabase extends StorageError {}
