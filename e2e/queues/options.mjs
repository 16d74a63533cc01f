export const connection = { path: process.env.REDIS };
// What a dead worker had comes again so soon, and as often as workers die.
export const options = { connection, concurrency: 2, lockDuration: 2_000, stalledInterval: 1_000, maxStalledCount: 100 };
