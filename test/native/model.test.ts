// Runs the native tests of whole models.
import { runNative } from './executables.js';

runNative('tests_model');
