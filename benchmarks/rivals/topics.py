"""Topic models of other packages: documents x words in, the probabilities of words out."""

import numpy as np

TOMOTOPY_ITERATIONS = 1000
LDA_PASSES = 30
NMF_PASSES = 500


def fit_lda(counts_DV, n_topics, seed):
    """LDA by scikit-learn, in online batches."""
    from sklearn.decomposition import LatentDirichletAllocation

    model = LatentDirichletAllocation(
        n_topics, learning_method="online", max_iter=LDA_PASSES, random_state=seed
    )
    model.fit(counts_DV)
    return normalised(model.components_)


def fit_nmf(counts_DV, n_topics, seed, *, sublinear=False):
    """NMF by scikit-learn, on tf-idf, as its documentation shows it; or of logarithms of counts."""
    from sklearn.decomposition import NMF
    from sklearn.feature_extraction.text import TfidfTransformer

    model = NMF(n_topics, init="nndsvdar", max_iter=NMF_PASSES, random_state=seed)
    model.fit(TfidfTransformer(sublinear_tf=sublinear).fit_transform(counts_DV))
    return normalised(model.components_)


def fit_tomotopy(counts_DV, n_topics, seed):
    """LDA by tomotopy: collapsed Gibbs sampling, the priors of topics learnt."""
    import tomotopy

    model = tomotopy.LDAModel(k=n_topics, seed=seed)
    words = np.array([str(number) for number in range(counts_DV.shape[1])])
    for start, end in zip(counts_DV.indptr[:-1], counts_DV.indptr[1:], strict=True):
        model.add_doc(words[counts_DV.indices[start:end]].repeat(counts_DV.data[start:end]))
    model.train(TOMOTOPY_ITERATIONS, workers=1)
    order_V = [int(word) for word in model.used_vocabs]
    probability_KV = np.zeros((n_topics, counts_DV.shape[1]))
    for topic in range(n_topics):
        probability_KV[topic, order_V] = model.get_topic_word_dist(topic)
    return probability_KV


def normalised(weight_KV):
    return weight_KV / np.maximum(weight_KV.sum(axis=1, keepdims=True), 1e-300)
