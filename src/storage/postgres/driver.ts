// Loads the PostgreSQL client, but only if a PostgreSQL database is used. It is CommonJS, so it can be loaded
// synchronously on demand.
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

export const driver = (): typeof import('pg') => require('pg') as typeof import('pg');
