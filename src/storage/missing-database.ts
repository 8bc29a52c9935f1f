import { StorageError } from './store.js';

/** There is no database yet. Commands do not create one, because its address may be mistyped. */
export class MissingDatabase extends StorageError {}
