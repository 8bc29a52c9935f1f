// A process that takes the lock of a data folder, says so, and keeps it until its standard input ends.
import { lockDataDir } from '../../src/storage/data-dir-lock.js';

lockDataDir(process.argv[2] as string);
process.stdout.write('locked\n');
process.stdin.resume();
