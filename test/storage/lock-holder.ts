// A process that locks a data directory, prints a message, and holds the lock until its standard input is closed.
import { lockDataDir } from '../../src/storage/data-dir-lock.js';

lockDataDir(process.argv[2] as string);
process.stdout.write('locked\n');
process.stdin.resume();
