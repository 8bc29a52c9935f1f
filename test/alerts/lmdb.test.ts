// Runs the AlertStore tests on LMDB.
import { LmdbAlertStore } from '../../src/storage/lmdb/alerts/alert-store.js';
import { ownStore } from '../support/own-store.js';
import { alertStoreTests } from './alert-stores.js';

alertStoreTests(async (t) => new LmdbAlertStore(await ownStore(t, 'alerts')));
