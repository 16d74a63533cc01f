export const connection = { path: process.env.REDIS };
// Redeliver the jobs of a dead worker soon, and as often as workers die.
export const options = { connection, concurrency: 2, lockDuration: 2_000, stalledInterval: 1_000, maxStalledCount: 100 };
