'use strict';
// Node: the module is read from beside this file when it is first required.
const { bind, DecisionInputError } = require('./dist/facade.cjs');

const decisions = bind(require('./dist/nodejs/decisions.js'));

exports.decisions = decisions;
exports.load = async () => decisions;
exports.DecisionInputError = DecisionInputError;
